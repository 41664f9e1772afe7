// What the declaration of a kernel says of its launches: __launch_bounds__, how many threads a
// block of it may have at most, and __cluster_dims__. Of a kernel with both the compiler tells of
// the one that comes last: let it be __cluster_dims__. Its blocks are then of any size here.
#pragma once

#include <vector_types.h>

namespace ladder::host {

/// Throws std::runtime_error if a block is larger than its kernel allows. (Where the compiler does
/// not tell, every block is allowed: that is so of Clang, and of processors other than x86-64.)
void expect_launch_bounds(const void* kernel, dim3 block);

/// The blocks of a cluster, along x; 0 if the kernel has no __cluster_dims__.
unsigned cluster_size(const void* kernel);

/// Whether the compiler tells.
#if defined(__x86_64__) && !defined(__clang__)
inline constexpr bool kKnowsClusters = true;
#else
inline constexpr bool kKnowsClusters = false;
#endif

}  // namespace ladder::host
