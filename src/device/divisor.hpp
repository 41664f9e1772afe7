// Division by a number that a whole launch divides by. The GPU divides integers in some twenty
// instructions, one after the other; before a block's first load or last store nothing hides them.
#pragma once

#include "device/types.hpp"

#include <cstdint>

namespace ladder {

/// Made on the host: x / divisor is x times 2^(31 + shift) / divisor, rounded up, over 2^(31 + shift).
/// As divisor <= 2^shift, the error is below 1 / divisor for all x from 0 to 2^31 - 1.
class Divisor {
 public:
  /// `divisor` is at least 1.
  explicit Divisor(int divisor) : divisor_(divisor) {
    while ((std::int64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t one = std::uint64_t{1} << (31 + shift_);
    factor_ = static_cast<unsigned>((one + divisor - 1) / divisor);
  }

  __host__ __device__ int quotient(int x) const {
    const std::uint64_t product = std::uint64_t{2 * unsigned(x)} * factor_;
    return static_cast<int>(unsigned(product >> 32) >> shift_);
  }
  __host__ __device__ int remainder(int x) const { return x - quotient(x) * divisor_; }

  /// Its members are selected, not its address: constants at an address that is not known take the GPU far
  /// longer to load.
  __host__ __device__ static Divisor select(bool first, const Divisor& a, const Divisor& b) {
    Divisor chosen = b;
    chosen.divisor_ = first ? a.divisor_ : b.divisor_;
    chosen.shift_ = first ? a.shift_ : b.shift_;
    chosen.factor_ = first ? a.factor_ : b.factor_;
    return chosen;
  }

 private:
  int divisor_, shift_ = 0;
  unsigned factor_;
};

}  // namespace ladder
