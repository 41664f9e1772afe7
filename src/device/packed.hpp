// Types of 4 bits as element types of arrays: two elements in a byte, the first in its low half. Of an array
// whose last element is alone in its byte the other half says nothing.
#pragma once

#include <vector_types.h>  // __host__, __device__

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ladder {

/// Two integers from -8 to 7, in two's complement.
struct int4x2 {
  using Element = std::int8_t;

  int4x2() = default;
  __host__ __device__ int4x2(int first, int second)
      : bits(static_cast<std::uint8_t>((first & 0xF) | (second & 0xF) << 4)) {}
  __host__ __device__ Element operator[](std::size_t i) const {
    return static_cast<Element>(static_cast<Element>(i == 0 ? bits << 4 : bits) >> 4);
  }

  std::uint8_t bits;
};

/// 2 bits of exponent, 1 of mantissa, below the sign: up to 6, no infinity and no NaN. In the low half of
/// its byte.
struct float4_e2m1 {
  float4_e2m1() = default;

  /// The nearest, of two equally near the one whose last bit is zero; 6 of what is larger, and of NaN.
  __host__ __device__ explicit float4_e2m1(float x) {
    std::uint32_t of_float;
    memcpy(&of_float, &x, sizeof x);
    const float size = x < 0 ? -x : x;
    const int midpoints_below = !(size <= 0.25f) + !(size < 0.75f) + !(size <= 1.25f) +
                                !(size < 1.75f) + !(size <= 2.5f) + !(size < 3.5f) + !(size <= 5);
    const bool is_negative = x == x && of_float >> 31;
    bits = static_cast<std::uint8_t>(midpoints_below | (is_negative ? 8 : 0));
  }
  __host__ __device__ explicit operator float() const {
    const int exponent = bits >> 1 & 3, mantissa = bits & 1;
    const float size = exponent == 0 ? 0.5f * static_cast<float>(mantissa)
                                     : 0.25f * static_cast<float>((2 + mantissa) << exponent);
    return bits & 8 ? -size : size;
  }

  std::uint8_t bits;
};

/// Two of them, as CUDA's __nv_fp4x2_e2m1.
struct float4_e2m1x2 {
  using Element = float4_e2m1;

  float4_e2m1x2() = default;
  __host__ __device__ float4_e2m1x2(Element first, Element second)
      : bits(static_cast<std::uint8_t>(first.bits | second.bits << 4)) {}
  __host__ __device__ Element operator[](std::size_t i) const {
    Element one;
    one.bits = static_cast<std::uint8_t>(i == 0 ? bits & 0xF : bits >> 4);
    return one;
  }

  std::uint8_t bits;
};

/// Whether a T holds two elements.
template <class T>
concept Packed = requires {
  typename T::Element;
};

}  // namespace ladder
