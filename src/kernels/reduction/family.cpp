#include "harness/family.hpp"
#include "reduction.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>

namespace reduction {
namespace {

using ladder::Array;
using limits = std::numeric_limits<float>;

// The elements of the timed sums have one sign: the limit of the error grows with the sum of their
// magnitudes, and where signs cancel the sum itself is so small that parts of it could be missing
// within that limit.
double positive(std::uint64_t bits) { return 0.5 + 0.5 * ladder::uniform(bits); }
double positive_value(std::uint64_t bits, const Array&) { return positive(bits); }

// Any int32. Sums of them wrap around.
double any_integer(std::uint64_t bits, const Array&) {
  return static_cast<std::int32_t>(bits >> 32);
}

// Integers from 1 to 3: sums of up to 5 * 2^20 are exact in fp32, and each is missed where it is
// missing. (Of products, sums of up to 2^20.)
double small_integer_value(std::uint64_t bits, const Array&) {
  return 1 + static_cast<double>(bits % 3);
}

// Few large numbers among small ones. They are all that fp16 holds, so no sum of two fits fp16.
double spike_value(std::uint64_t bits, const Array&) {
  return bits % 32 != 0 ? ladder::uniform(bits) : bits & 32 ? 65504 : -65504;
}

// Now and then a number beside which all others are nothing; more than fp16 holds. Of a dot product
// only in one of the vectors.
double huge_value(std::uint64_t bits, const Array& array) {
  return array.name == "x" && bits % 1024 == 0 ? 0x1p100 : positive(bits >> 10);
}
double huge_integer(std::uint64_t bits, const Array&) {
  return bits % 1024 == 0 ? std::numeric_limits<std::int32_t>::max() : 1;
}

// Numbers so small that fp32 has fewer digits for them; fp16 has zeros.
double denormal_value(std::uint64_t bits, const Array&) {
  return (static_cast<double>(bits % 255) - 127) * 0x1p-136;
}

double constant_value(std::uint64_t, const Array&) { return 1.0 / 3; }
double constant_integer(std::uint64_t, const Array&) { return -7; }

// A sum of which is minus infinity, unless it is short.
double some_minus_infinity(std::uint64_t bits, const Array& array) {
  return array.name == "x" && bits % 64 == 0 ? -limits::infinity() : 1 + positive(bits);
}

// Numbers below zero at the edges of fp32; narrower types round them to their own edges.
double edge_value(std::uint64_t bits, const Array&) {
  const double values[] = {-limits::infinity(), limits::lowest(),      -65504.0, -1.0,
                           -limits::min(),      -limits::denorm_min(), -0x1p-24, -0x1p-133};
  return values[bits % std::size(values)];
}
double edge_integer(std::uint64_t bits, const Array&) {
  using integers = std::numeric_limits<std::int32_t>;
  const double values[] = {integers::min(), integers::min() + 1, -1};
  return values[bits % std::size(values)];
}

double minus_infinity(std::uint64_t, const Array&) { return -limits::infinity(); }
double least_integer(std::uint64_t, const Array&) {
  return std::numeric_limits<std::int32_t>::min();
}

double some_nan(std::uint64_t bits, const Array& array) {
  return bits % 512 == 0 ? limits::quiet_NaN() : edge_value(bits >> 9, array);
}

/// What a reference finds in some of the elements. Sums have 11 bits more than fp64 on x86, for the
/// sake of those of fp64 and of many integers.
struct Findings {
  long double sum = 0;
  double magnitudes = 0;  // the sum of |x|
  double max = -std::numeric_limits<double>::infinity(), max_magnitude = 0;

  void add(long double x) {
    sum += x;
    const auto value = static_cast<double>(x);
    magnitudes += std::abs(value);
    max = std::max(max, value);
    max_magnitude = std::max(max_magnitude, std::abs(value));
  }
  void add(const Findings& other) {
    sum += other.sum;
    magnitudes += other.magnitudes;
    max = std::max(max, other.max);
    max_magnitude = std::max(max_magnitude, other.max_magnitude);
  }
};

/// In term(0) to term(n - 1).
template <class F>
Findings find(std::size_t n, F term) {
  constexpr std::size_t kChunk = 1 << 18;
  std::vector<Findings> parts(ladder::ceil_div(n, kChunk));
  ladder::parallel_for(parts.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t part = begin; part < end; ++part) {
      Findings found;
      const std::size_t stop = std::min(n, (part + 1) * kChunk);
      for (std::size_t i = part * kChunk; i < stop; ++i) found.add(term(i));
      parts[part] = found;
    }
  });
  Findings all;
  for (const Findings& part : parts) all.add(part);
  return all;
}

/// The int32 that a sum of many wraps around to.
double wrapped(long double sum) {
  const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(sum));
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(whole));
}

/// The first of the largest; a NaN is larger than every number.
template <class T>
double first_largest(std::span<const T> x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    const double value = ladder::widen(x[i]), largest = ladder::widen(x[best]);
    if (std::isnan(largest)) break;
    if (value > largest || std::isnan(value)) best = i;
  }
  return static_cast<double>(best);
}

/// How far a sum of n numbers may be off, in units of the roundoff u (2^-24 of fp32), to first order
/// in u. Let S be the sum of |x| and X the largest |x|.
///
/// An addition is off by at most u times its result, and a result is at most the part of S below
/// it. The kernels first make chains: a thread adds up to c numbers one after another, and no part
/// is more than cX. The chains' results then go up a tree of ceil(log2 n) levels at most.
///
/// In the worst case a number is rounded c + log2 n times: u (c + log2 n) S in all.
///
/// Errors taken as independent add up as their squares do, and stay below lambda times the root of
/// that sum but for a probability that falls like exp(-lambda^2 / 2) (Higham and Mary, A New
/// Approach to Probabilistic Rounding Error Analysis, 2019). The squares of parts that are P at
/// most and sum to Q sum to PQ at most. Chains: P = cX and Q = cS make c^2 X S. The tree: Q = S at
/// each level; the parts double from level to level, cX, 2cX, …, until they may be S, so these
/// levels make 2 S^2 at most, and each of the log2(nX / S) levels above makes S^2. Where b blocks add
/// to the result one after another (v12), that is 1/b, 2/b, … of S, and b/3 S^2 together.
double sum_error(double n, const Findings& x) {
  constexpr double kLambda = 8;
  if (x.magnitudes == 0) return 0;
  // Chains are up to 64 long, plus n / 2^20 where the number of blocks is limited; of CUB, which we
  // don't choose, some 200 at 2^28. Blocks that add one after another have 8192 elements or more.
  const double c = std::min(n, 256 + n / (1 << 20));
  const double b = std::min(256.0, n / 8192);
  const double s = x.magnitudes, largest = x.max_magnitude;
  const double levels = 2 + std::log2(n * largest / s);
  const double squares = s * s * (levels + b / 3) + c * c * largest * s;
  return std::min(kLambda * std::sqrt(squares), (c + b + std::ceil(std::log2(n))) * s);
}

/// The same for the sum of n products, of which each may be rounded before it is added; underflow
/// takes up to half of the smallest number, which is u times the smallest normal one.
double dot_error(double n, const Findings& products, double smallest_normal) {
  return sum_error(n, products) + products.magnitudes + n * smallest_normal;
}

template <class Op>
struct Contract : Op {
  static constexpr bool is_sum = std::same_as<Op, sum>;
  static constexpr bool is_dot = std::same_as<Op, dot>;
  static constexpr bool is_argmax = std::same_as<Op, argmax>;

  static std::vector<ladder::Field> fields() { return {ladder::size<&Problem::n>("N")}; }

  // v01 to v03 begin a second pass beyond 256 elements and a third beyond 65536, v04 to v06 a
  // second beyond 512; the others use more than one block beyond 16384 (v40: 8192), with 16-bit
  // elements 32768 (16384).
  static std::vector<Problem> test_problems() {
    return {{0},    {1},    {2},    {7},      {31},     {33},     {255},
            {256},  {257},  {511},  {513},    {1021},   {1023},   {1025},
            {4095}, {4097}, {8193}, {16'387}, {50'257}, {66'001}, {131'073}};
  }
  // Sums have one more, the longest: there the ends of a launch weigh least.
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1 << 14}, {50'021}};
    std::vector<Problem> problems{{1 << 20}, {1 << 22}, {1 << 24}, {100'000'007}, {1 << 28}};
    if (is_sum) problems.push_back({1 << 30});
    return problems;
  }
  static Problem smaller(const Problem& p) { return {ladder::shortened(p.n, 1 << 17)}; }
  static const char* best(const Problem&) { return is_dot ? "v40_" : is_argmax ? "v30_" : "v16_"; }
  static std::vector<ladder::InputSet> input_sets() {
    // fp32 atomics on global memory take subnormal numbers for zero (PTX ISA, red).
    constexpr const char* kFlushes = is_sum ? "v12_atomic_add" : nullptr;
    if constexpr (is_sum || is_dot) {
      return {{"uniform", positive_value, false, any_integer},
              {"small integers", small_integer_value, true},
              {"spikes", spike_value},
              {"huge", huge_value, false, huge_integer},
              {"denormal", denormal_value, false, any_integer, kFlushes},
              {"constant", constant_value, false, constant_integer},
              {"some minus infinity", some_minus_infinity, false, any_integer}};
    } else {
      std::vector<ladder::InputSet> sets{{"uniform", ladder::uniform_value, false, any_integer},
                                         {"edges", edge_value, false, edge_integer},
                                         {"denormal", denormal_value, false, any_integer},
                                         {"constant", constant_value, false, constant_integer},
                                         {"minus infinity", minus_infinity, false, least_integer}};
      if (is_argmax) {
        sets.push_back({"small integers", small_integer_value});  // many are the largest
        sets.push_back({"NaN", some_nan, false, edge_integer});
      }
      return sets;
    }
  }

  static double flops(const Problem& p) { return (is_dot ? 2 : 1) * static_cast<double>(p.n); }

  // Maxima and integers are exact. The magnitudes of sums are in units of the roundoff of what they
  // are made in: see sum_error.
  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    std::vector<Array> all{ladder::input<T>("x", p.n)};
    if (is_dot) all.push_back(ladder::input<T>("other", p.n));
    const double u = ladder::unit_roundoff(ladder::DTypeOf<Accumulator<T>>::value);
    all.push_back(ladder::output<typename Op::template Output<T>>(
        "y", 1, {.scaled = is_sum || is_dot ? u : 0}));
    return all;
  }
  template <class T>
  static Args<Op, T> bind(const Problem& p, ladder::Operands of) {
    if constexpr (is_dot) {
      return {.x = {of["x"], of["other"]}, .y = of["y"], .n = p.n, .workspace = nullptr};
    } else {
      return {.x = of["x"], .y = of["y"], .n = p.n, .workspace = nullptr};
    }
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::span<const T> x = of["x"], other = of[is_dot ? "other" : "x"];
    if constexpr (is_argmax) {
      return {{.values = {first_largest(x)}, .magnitude = {}}};
    } else {
      const Findings found = find(x.size(), [&](std::size_t i) -> long double {
        return is_dot ? static_cast<long double>(ladder::widen(x[i])) * ladder::widen(other[i])
                      : ladder::widen(x[i]);
      });
      const auto n = static_cast<double>(p.n), sum = static_cast<double>(found.sum);
      if constexpr (is_dot) {
        const double smallest = std::numeric_limits<Accumulator<T>>::min();
        return {{.values = {sum}, .magnitude = {dot_error(n, found, smallest)}}};
      } else if constexpr (std::is_integral_v<T> && is_sum) {
        return {{.values = {wrapped(found.sum)}, .magnitude = {}}};
      } else if constexpr (is_sum) {
        return {{.values = {sum}, .magnitude = {sum_error(n, found)}}};
      } else {
        const double least = kLeast<Accumulator<T>>;  // of no elements
        return {{.values = {std::max(found.max, least)}, .magnitude = {}}};
      }
    }
  }
};

template <class Op>
using Floats = ladder::RegisterFamily<Contract<Op>, float, ladder::half, ladder::bfloat16, double>;
template <class Op>
using FloatsAndIntegers = ladder::RegisterFamily<Contract<Op>, float, ladder::half,
                                                 ladder::bfloat16, double, std::int32_t>;
const FloatsAndIntegers<sum> register_sum;
const FloatsAndIntegers<max> register_max;
const FloatsAndIntegers<argmax> register_argmax;
const Floats<dot> register_dot;

}  // namespace
}  // namespace reduction
