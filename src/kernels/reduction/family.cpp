#include "harness/family.hpp"
#include "reduction.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>

namespace reduction {
namespace {

// The elements of the timed sums have one sign: the limit of the error grows with the sum of their
// magnitudes, and where signs cancel the sum itself is so small that parts of it could be missing
// within that limit.
double positive_value(std::uint64_t bits, int input) {
  return 0.5 + 0.5 * ladder::uniform_value(bits, input);
}

// Integers from 1 to 8: sums of up to 2^21 are exact in fp32, and each is missed where it is
// missing.
double small_integer_value(std::uint64_t bits, int) { return 1 + static_cast<double>(bits % 8); }

// Few large numbers among small ones. They are all that fp16 holds, so no sum of two fits fp16.
double spike_value(std::uint64_t bits, int input) {
  return bits % 32 != 0 ? ladder::uniform_value(bits, input) : bits & 32 ? 65504 : -65504;
}

// Numbers below zero at the edges of fp32; narrower types round them to their own edges.
double edge_value(std::uint64_t bits, int) {
  using limits = std::numeric_limits<float>;
  const double values[] = {-limits::infinity(), limits::lowest(),      -65504.0, -1.0,
                           -limits::min(),      -limits::denorm_min(), -0x1p-24, -0x1p-133};
  return values[bits % std::size(values)];
}

double minus_infinity(std::uint64_t, int) { return -std::numeric_limits<double>::infinity(); }

/// What a reference in fp64 finds in some of the elements.
struct Findings {
  double sum = 0, magnitudes = 0;  // of x, of |x|
  double max = -std::numeric_limits<double>::infinity(), max_magnitude = 0;

  void add(double x) {
    sum += x;
    magnitudes += std::abs(x);
    max = std::max(max, x);
    max_magnitude = std::max(max_magnitude, std::abs(x));
  }
  void add(const Findings& other) {
    sum += other.sum;
    magnitudes += other.magnitudes;
    max = std::max(max, other.max);
    max_magnitude = std::max(max_magnitude, other.max_magnitude);
  }
};

template <class T>
Findings find(const std::vector<T>& x) {
  constexpr std::size_t kChunk = 1 << 18;
  std::vector<Findings> parts(ladder::ceil_div(x.size(), kChunk));
  ladder::parallel_for(parts.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t part = begin; part < end; ++part) {
      Findings found;
      const std::size_t stop = std::min(x.size(), (part + 1) * kChunk);
      for (std::size_t i = part * kChunk; i < stop; ++i) found.add(static_cast<float>(x[i]));
      parts[part] = found;
    }
  });
  Findings all;
  for (const Findings& part : parts) all.add(part);
  return all;
}

/// How far a sum of n numbers in fp32 may be off, in units u = 2^-24 of the roundoff, to first
/// order in u. Let S be the sum of |x| and X the largest |x|.
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
/// levels make 2 S^2 at most, and each of the log2(nX / S) levels above makes S^2.
double sum_error(double n, const Findings& x) {
  constexpr double kLambda = 8;
  if (x.magnitudes == 0) return 0;
  // Chains of v01 to v11 are up to 64 long, plus n / 2^22 where the number of blocks is limited; of
  // CUB, which we don't choose, some 200 at 2^28.
  const double c = std::min(n, 256 + n / (1 << 20));
  const double s = x.magnitudes, largest = x.max_magnitude;
  const double squares = s * s * (2 + std::log2(n * largest / s)) + c * c * largest * s;
  return std::min(kLambda * std::sqrt(squares), (c + std::ceil(std::log2(n))) * s);
}

template <class Op>
struct Contract : Op {
  static constexpr bool is_sum = std::same_as<Op, sum>;
  static constexpr const char* problem_help = "N elements, at least 0, e.g. 268435456";

  static std::optional<Problem> parse(std::string_view text) {
    const auto n = ladder::parse_dimensions(text, 1, 0);
    return n ? std::optional(Problem{n->front()}) : std::nullopt;
  }
  static std::string text(const Problem& p) { return std::to_string(p.n); }

  // v01 to v03 begin a second pass beyond 256 elements and a third beyond 65536, v04 to v06 a
  // second beyond 512; v07 to v11 use more than one block beyond 16384, those with 16-bit elements
  // 32768.
  static std::vector<Problem> test_problems() {
    return {{0},   {1},   {2},    {7},    {31},   {33},   {255},    {256},   {257},
            {511}, {513}, {1021}, {4095}, {4097}, {8193}, {16'387}, {66'001}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1 << 14}, {50'021}};
    return {{1 << 20}, {1 << 22}, {1 << 24}, {100'000'007}, {1 << 28}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    if constexpr (is_sum) {
      return {{"uniform", positive_value},
              {"small integers", small_integer_value, true},
              {"spikes", spike_value}};
    } else {
      return {{"uniform", ladder::uniform_value},
              {"edges", edge_value},
              {"minus infinity", minus_infinity}};
    }
  }

  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const auto n = static_cast<double>(p.n);
    return {.flops = n,
            .bytes_read = n * static_cast<double>(ladder::size_of(dtype)),
            .bytes_written = sizeof(float)};
  }
  // Maxima are exact. The magnitudes of sums are in units of the roundoff of fp32: see sum_error.
  static ladder::Tolerance tolerance(const Problem&, ladder::DType) {
    return {.relative = 0, .scaled = is_sum ? 0x1p-24 : 0};
  }

  static std::vector<std::size_t> input_sizes(const Problem& p) {
    return {static_cast<std::size_t>(p.n)};
  }
  static std::size_t output_size(const Problem&) { return 1; }

  template <class T>
  static Args<Op, T> bind(const Problem& p, std::span<T* const> inputs, float* output) {
    return {.x = inputs[0], .y = output, .n = p.n, .workspace = nullptr};
  }

  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::vector<T>> inputs) {
    const Findings found = find(inputs[0]);
    if constexpr (is_sum) {
      return {.values = {found.sum}, .magnitude = {sum_error(static_cast<double>(p.n), found)}};
    } else {
      return {.values = {found.max}, .magnitude = {}};
    }
  }
};

template <class Op>
using Family = ladder::RegisterFamily<Contract<Op>, float, ladder::half, ladder::bfloat16>;
const Family<sum> register_sum;
const Family<max> register_max;

}  // namespace
}  // namespace reduction
