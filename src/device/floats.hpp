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
    using Element = std::remove_cvref_t<decltype(v[0])>;
    if constexpr (std::is_same_v<Element, bfloat16> && Vec::size % 2 == 0) {
      unsigned words[Vec::size / 2];
      std::memcpy(words, &v, sizeof words);
#pragma unroll
      for (int i = 0; i < Vec::size / 2; ++i) {
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
