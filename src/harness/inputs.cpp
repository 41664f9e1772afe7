// What arrays hold before a kernel runs. make_input is compiled once for each element type, not for each
// family and operation.
#include "harness/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

namespace ladder {
namespace {

// To the nearest, ties to even, as T(x); to an integer towards 0, and into its range. On the CPU a
// conversion to 16 bits takes longer than all else that is done for an element, so the common numbers have
// a way of their own.
template <class T, class Wide>
T narrowed(Wide x, [[maybe_unused]] const IntegerRange& range) {
  if constexpr (std::is_integral_v<T>) {
    if (x >= static_cast<Wide>(range.most)) return static_cast<T>(range.most);
    if (!(x > static_cast<Wide>(range.least))) return static_cast<T>(range.least);
  } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
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
void fill(std::span<T> elements, const Array& array, const InputSet& set, const RandomBits& bits) {
  const auto fill_at = [&](auto value) {
    parallel_for(elements.size(), 1 << 18, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) elements[i] = value(i, bits[i]);
    });
  };
  const auto fill_each = [&](auto value) {
    fill_at([&](std::size_t, std::uint64_t b) { return value(b); });
  };
  using enum Generator::Kind;
  constexpr bool kIntegers = std::is_integral_v<T>;
  const Generator& by = array.generator;
  if (by.kind == input_set) {
    using Wide = std::conditional_t<kIntegers || std::is_same_v<T, double>, double, float>;
    const auto value = kIntegers && set.integer ? set.integer : set.value;
    const IntegerRange range = range_of(array.dtype);
    const auto element = [&](double x) { return narrowed<T>(static_cast<Wide>(x), range); };
    if (set.at) {
      fill_at([&](std::size_t i, std::uint64_t b) { return element(set.at(i, b, array)); });
    } else {
      fill_each([&](std::uint64_t b) { return element(value(b, array)); });
    }
  } else if constexpr (kIntegers) {
    const auto bound = static_cast<std::uint64_t>(by.bound);
    if (by.kind == permutation) {
      std::iota(elements.begin(), elements.end(), T{0});
      for (std::size_t i = elements.size(); i > 1; --i) {
        std::swap(elements[i - 1], elements[bits[i] % i]);
      }
    } else if (by.kind == zipf) {
      std::vector<double> up_to;  // an element, how often are it and those below
      for (double k = 1, all = 0; up_to.size() < bound; ++k) {
        up_to.push_back(all += std::pow(k, -by.exponent));
      }
      fill_each([&](std::uint64_t b) {
        const double at = static_cast<double>(b >> 11) * 0x1p-53 * up_to.back();
        return static_cast<T>(std::ranges::upper_bound(up_to, at) - up_to.begin());
      });
    } else {
      fill_each([&](std::uint64_t b) { return static_cast<T>(b % bound); });
    }
  }
  if (by.sorted) {
    std::ranges::sort(elements, [](T a, T b) {  // NaNs last
      if constexpr (kIntegers) return a < b;
      return widen(a) < widen(b) || (std::isnan(widen(b)) && !std::isnan(widen(a)));
    });
  }
  if (by.kind == offsets && !elements.empty()) {
    elements.front() = T(0);
    elements.back() = static_cast<T>(by.bound - 1);
  }
}

}  // namespace

double climbing(std::uint64_t index, const Array& array, double most) {
  constexpr std::uint64_t kRun = 512, kLevels = 16;
  // Beside steps of up to 2^kLow the levels below still count, and up to 2^kHigh f16 has some.
  constexpr int kLeast = -3, kLow = 5, kHigh = 11;
  const std::uint64_t run = index / kRun, slope = run / kLevels, level = run % kLevels;
  const std::uint64_t bits = mixed(mixed(slope + 1) + array.size);
  const bool is_steep = (slope + array.size) % 2 == 1, is_steepest = is_steep && (bits & 2) != 0;
  const int largest = std::ilogb(most / kLevels);
  const int from = std::min(is_steep ? kLow + 1 : kLeast, largest);
  const int to = std::min(is_steepest ? largest : is_steep ? kHigh : kLow, largest);
  const int step = from + static_cast<int>((bits >> 2) % static_cast<unsigned>(to - from + 1));
  return std::ldexp(static_cast<double>(bits & 1 ? level : kLevels - 1 - level), step);
}

Array Array::with(Generator by) const {
  const bool has_none =
      by.bound < 1 ? size > 0 : by.kind == Generator::Kind::offsets && size == 1 && by.bound > 1;
  if (by.kind != Generator::Kind::input_set &&
      (!is_integer(dtype) || std::cmp_greater(by.bound - 1, range_of(dtype).most) || has_none)) {
    throw std::logic_error(fmt::format("{} elements of {}, in {}, can't be integers below {}", size,
                                       name, to_string(dtype), by.bound));
  }
  Array array = *this;
  array.generator = by;
  return array;
}

Array Array::valid_by(std::string which) const {
  Array array = *this;
  array.count = std::move(which);
  return array;
}

void make_input(const Array& array, void* elements, const InputSet& set, const RandomBits& bits) {
  with_type(array.dtype, [&]<class T>(std::type_identity<T>) {
    auto* const to = static_cast<T*>(elements);
    if constexpr (Packed<T>) {
      const std::size_t bytes = bytes_of(array.dtype, array.size);
      LargeArray<typename T::Element> each(2 * bytes);
      if (bytes > 0) each.back() = {};
      fill(std::span(each.data(), array.size), array, set, bits);
      parallel_for(bytes, 1 << 18, [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; ++b) to[b] = T(each[2 * b], each[2 * b + 1]);
      });
    } else {
      fill(std::span(to, array.size), array, set, bits);
    }
  });
}

}  // namespace ladder
