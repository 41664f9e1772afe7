// Finds what a GPU leaves undefined in shared memory: values that nobody has written, and accesses
// of two threads in no order (touches.hpp).
//
// An asynchronous write, of which cp.async is the first kind, is watched from its issue on: it must
// come after the accesses that were there before, and until it is complete nobody may touch its
// destination. From then on it counts as a store that its thread has just made.
#pragma once

#include "host_executor/counts.hpp"

#include <cstddef>

namespace ladder::host {

/// A part of shared memory, under watch.
enum class SharedPart { fixed, dynamic };

/// The running thread accesses shared memory, at an offset into its part; ends the launch if that is
/// undefined. Access::async is the issue of an asynchronous write.
void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access);

/// The asynchronous write that the running thread issued there is complete, and the thread knows it.
void complete_async(SharedPart part, std::size_t offset, std::size_t bytes);

}  // namespace ladder::host
