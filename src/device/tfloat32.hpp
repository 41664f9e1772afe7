// TF32, the tensor cores' 32-bit type, as an element type of arrays.
#pragma once

#include <vector_types.h>  // __host__, __device__

#include <cstdint>
#include <cstring>

namespace ladder {

/// A float of which TF32 keeps everything: the range of a float, 8 bits of exponent, with the
/// mantissa of a half, 10 bits. The 13 bits below are zero.
struct tfloat32 {
  tfloat32() = default;

  /// The nearest; of two equally near the one whose last bit is zero.
  __host__ __device__ explicit tfloat32(float x) : value(x) {
    if (x != x) return;
    std::uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
    memcpy(&value, &bits, sizeof bits);
  }
  __host__ __device__ explicit operator float() const { return value; }

 private:
  float value;
};

}  // namespace ladder
