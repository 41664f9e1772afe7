// Acquire and release (device/ptx/memory_order.hpp) on the host executor: what the block and the
// cluster see of each other is ordered here, what the GPU and the system do, between blocks too
// (global_races.hpp).
#pragma once

namespace ladder::host {

/// To be called before every block: nobody has released anything.
void reset_releases();

// The running thread's access at pc. `beyond`: other clusters are in its scope.
void acquire(const void* pc, const unsigned* address, bool beyond);
void release(const void* pc, const unsigned* address, bool beyond);
void acquire_release(const void* pc, const unsigned* address, bool beyond);

}  // namespace ladder::host
