// Two 16-bit numbers that are neighbours, as one word.
#pragma once

#include "device/kernel.hpp"

#include <type_traits>

namespace ladder {

/// Two accumulators as neighbours of type T.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float first, float second) {
  if constexpr (std::is_same_v<T, half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}

/// The other way.
template <class T>
__device__ __forceinline__ float2 unpack(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, half>) {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
  } else {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
  }
}

}  // namespace ladder
