// make_input, compiled once for each element type, not for each family and operation.
#include "harness/family.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace ladder {
namespace {

// To the nearest, ties to even, as T(x). On the CPU a conversion to 16 bits takes longer than all
// else that is done for an element, so the common numbers have a way of their own.
template <class T, class Wide>
T narrowed(Wide x) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    constexpr bool kHalf = std::is_same_v<T, half>;
    constexpr float kLeast = kHalf ? 0x1p-14f : 0, kMost = kHalf ? 65504 : 0x1p127f;
    constexpr unsigned kDropped = kHalf ? 13 : 16, kLowerBias = kHalf ? 127 - 15 : 0;
    if (const float size = std::abs(x); size >= kLeast && size <= kMost) {
      const auto bits = std::bit_cast<std::uint32_t>(size);
      const std::uint32_t half_a_step = (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
      const std::uint32_t rounded = (bits + half_a_step - (kLowerBias << 23)) >> kDropped;
      const std::uint32_t sign = std::signbit(x) ? 0x8000 : 0;
      return std::bit_cast<T>(static_cast<std::uint16_t>(rounded | sign));
    }
  }
  return T(x);
}

template <class T>
void fill(T* elements, std::size_t size, const InputSet& set, std::uint64_t seed, int input) {
  constexpr bool kIntegers = std::is_integral_v<T>;
  using Wide = std::conditional_t<kIntegers || std::is_same_v<T, double>, double, float>;
  const auto value = kIntegers && set.integer ? set.integer : set.value;
  const RandomBits bits(seed, static_cast<std::uint64_t>(input));
  parallel_for(size, 1 << 18, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      elements[i] = narrowed<T>(static_cast<Wide>(value(bits[i], input)));
    }
  });
}

}  // namespace

void make_input(DType dtype, void* elements, std::size_t size, const InputSet& set,
                std::uint64_t seed, int input) {
  with_type(dtype, [&]<class T>(std::type_identity<T>) {
    fill(static_cast<T*>(elements), size, set, seed, input);
  });
}

}  // namespace ladder
