// --lock-clocks: the GPU's SM clock, held for as long as this process lives.
#pragma once

#include <sys/types.h>

namespace ladder {

/// Holds the SM clock of a GPU at a value. A process of its own, the guard, locks it, and resets it
/// when this process ends, however that comes about: the driver itself would leave it locked.
class ClockLock {
 public:
  /// device: as CUDA numbers them. The caller must be single-threaded, and must not have used CUDA.
  /// Throws UsageError when there is no such GPU, or the user may not lock its clocks.
  ClockLock(unsigned mhz, int device);
  ~ClockLock();  ///< returns after the reset
  ClockLock(const ClockLock&) = delete;
  ClockLock& operator=(const ClockLock&) = delete;

 private:
  pid_t guard_;
};

}  // namespace ladder
