// The lists that ladder::Register and ladder::launch append to. Compiled into the programs and into
// the host executor's shared library: each image has its own.
#include "harness/kernel.hpp"

namespace ladder {

std::vector<Kernel>& registered_kernels() {
  static std::vector<Kernel> kernels;
  return kernels;
}

std::vector<Launch>& recorded_launches() {
  static std::vector<Launch> launches;
  return launches;
}

}  // namespace ladder
