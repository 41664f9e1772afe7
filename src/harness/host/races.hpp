// Finds what a GPU leaves undefined in shared memory: values that nobody has written, and accesses
// of two threads in no order. __syncthreads orders the accesses of a block, __syncwarp those of the
// lanes in it; a shuffle orders nothing.
//
// An asynchronous write, of which cp.async is the first kind, is watched from its issue on: it must
// come after the accesses that were there before, and until it is complete nobody may touch its
// destination. From then on it counts as a store that its thread has just made.
#pragma once

#include "harness/counters.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace ladder::host {

/// What messages call an access.
const char* name_of(Access access);

/// A new block of so many threads runs: shared memory holds nothing.
void forget_shared(unsigned threads);

/// The threads of the block have met at __syncthreads.
void order_block();

/// Lanes of a warp, by the bits of `lanes`, have met at __syncwarp.
void order_lanes(unsigned warp, unsigned lanes);

/// A part of shared memory, under watch.
enum class SharedPart { fixed, dynamic };

/// The running thread accesses shared memory, at an offset into its part; ends the launch if that is
/// undefined. Access::async is the issue of an asynchronous write.
void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access);

/// The asynchronous write that the running thread issued there is complete, and the thread knows it.
void complete_async(SharedPart part, std::size_t offset, std::size_t bytes);

/// A race between lanes of one warp of several: it does not end the launch at once, as one between
/// warps that follows says better what is missing, a __syncthreads.
struct WarpRace {
  unsigned thread;  ///< whose error it is
  std::string text;
};

/// The first since the threads of the block last met, if there is one.
std::optional<WarpRace> race_in_warp();

}  // namespace ladder::host
