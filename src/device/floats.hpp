// A vector's elements as floats.
#pragma once

#include "device/vector.hpp"

#include <type_traits>

namespace ladder {

/// One instruction for each element of 16 bits. The compiler needs two for a bfloat16: it takes it
/// out of its register first, where a float is that register shifted, or without its lower half.
template <class Vec>
struct Floats {
  float element[Vec::size];

  __device__ explicit Floats(const Vec& v) {
    if constexpr (std::is_same_v<Vec, Vec128<bfloat16>>) {
      unsigned words[4];
      std::memcpy(words, &v, 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const unsigned bits[] = {words[i] << 16, words[i] & 0xffff0000u};
        std::memcpy(&element[2 * i], bits, sizeof bits);
      }
    } else {
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) element[e] = static_cast<float>(v[e]);
    }
  }
  __device__ float operator[](int e) const { return element[e]; }
};

}  // namespace ladder
