// The __launch_bounds__ of a kernel: how many threads a block of it may have at most.
#pragma once

#include <vector_types.h>

namespace ladder::host {

/// Throws std::runtime_error if a block is larger than its kernel allows. (Where the compiler does
/// not tell, every block is allowed: that is so of Clang, and of processors other than x86-64.)
void expect_launch_bounds(const void* kernel, dim3 block);

}  // namespace ladder::host
