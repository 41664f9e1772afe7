// Finds what a GPU leaves undefined in shared memory: values that nobody has written, and accesses
// of two threads in no order. __syncthreads orders the accesses of a block, __syncwarp those of the
// lanes in it; a shuffle orders nothing.
#pragma once

#include "harness/counters.hpp"

#include <cstddef>

namespace ladder::host {

/// What messages call an access.
const char* name_of(Access access);

/// A new block runs: shared memory holds nothing.
void forget_shared();

/// The threads of the block have met at __syncthreads.
void order_block();

/// Lanes of a warp, by the bits of `lanes`, have met at __syncwarp.
void order_lanes(unsigned warp, unsigned lanes);

/// A part of shared memory, under watch.
enum class SharedPart { fixed, dynamic };

/// The running thread accesses shared memory, at an offset into its part; ends the launch if that is
/// undefined.
void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access);

}  // namespace ladder::host
