// The lists that ladder::Register and ladder::launch append to.
#pragma once

#include "device/kernel.hpp"

#include <vector>

namespace ladder {

/// The registered kernels of this binary image: those for the GPU in the programs, those for the
/// host executor in its shared library.
std::vector<Kernel>& registered_kernels();

/// The launches of this binary image since the list was last cleared.
std::vector<Launch>& recorded_launches();

}  // namespace ladder
