// The one hash of 64 bits, on either side.
#pragma once

#include "device/types.hpp"

#include <cstdint>

namespace ladder {

/// The last step of splitmix64: each bit depends on all of z's; 0 stays 0.
__host__ __device__ constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace ladder
