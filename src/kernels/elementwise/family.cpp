#include "harness/family.hpp"
#include "reference.hpp"

#include <algorithm>
#include <limits>

namespace elementwise {
namespace {

using limits = std::numeric_limits<float>;
constexpr double kLeast = limits::denorm_min();

// Numbers at the edges of fp32; narrower types round them to their own edges. Infinities have one
// sign and one array, so that no sum is a NaN, which could hide an element that was never written.
double edge_value(std::uint64_t bits, const ladder::Array& array) {
  const double infinity = array.name == "x" ? -limits::infinity() : 0.5;
  constexpr double kMin = limits::min(), kMax = limits::max();
  const double values[] = {0.0,  -0.0,  kLeast,   -kLeast, kMin, -kMin,
                           kMax, -kMax, infinity, 1.0,     -1.0, 65504.0};
  return values[bits % std::size(values)];
}

// For gelu and silu: every type's smallest numbers; where gelu's 1 + erf cancels and where erf has
// become 1; where exp(-x) leaves fp32's range; large ones, of which three still make no infinity in
// fp16; and the infinity that makes no NaN.
double activation_edge_value(std::uint64_t bits, const ladder::Array& array) {
  const double infinity = array.name == "x" ? limits::infinity() : 0.5;
  const double values[] = {0.0,  -0.0,  kLeast, -kLeast, 0x1p-24, -0x1p-24, 0x1p-133, -0x1p-133,
                           1.0,  -1.0,  3.0,    -3.0,    5.4,     -5.4,     14.0,     -14.0,
                           88.0, -88.0, -89.0,  1e4,     -1e4,    infinity};
  return values[bits % std::size(values)];
}

// What silu is multiplied by: no zero, because of the infinity, and no more than fp16 holds.
double gate_edge_value(std::uint64_t bits, const ladder::Array& array) {
  if (array.name == "x") return activation_edge_value(bits, array);
  const double values[] = {1.0, -1.0, 3.0, -3.0, 0.3, 0x1p-14, -0x1p-24};
  return values[bits % std::size(values)];
}

// Where gelu and silu are neither x nor 0.
double wide_value(std::uint64_t bits, const ladder::Array&) { return 8 * ladder::uniform(bits); }

template <class Op>
std::vector<ladder::InputSet> input_sets_of() {
  const ladder::InputSet uniform{"uniform", ladder::uniform_value};
  if (std::same_as<Op, relu> || std::same_as<Op, add>) return {uniform, {"edges", edge_value}};
  const bool gated = std::same_as<Op, silu_mul>;
  return {
      uniform, {"wide", wide_value}, {"edges", gated ? gate_edge_value : activation_edge_value}};
}

template <class Op>
struct Contract : Op {
  static constexpr bool is_chain = std::same_as<Op, bias_gelu_residual>;
  static constexpr std::int64_t kMostOfMany = std::int64_t{1}
                                              << 31;  // so that a product is an int64

  static std::int64_t elements(const Problem& p) { return p.rows * p.cols; }

  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::rows>("ROWS").to(kMostOfMany).unless(1).behind_it("x"),
            ladder::size<&Problem::cols>("COLS")};
  }
  static bool valid(const Problem& p) { return p.rows == 1 || p.cols <= kMostOfMany; }

  // Of the chain: rows of whole vectors and others, some shorter than a vector.
  static std::vector<Problem> test_problems() {
    if (is_chain) {
      return {{1, 0},   {3, 0},    {0, 5},    {1, 1},     {33, 1},   {1, 31},     {7, 3},
              {85, 3},  {31, 33},  {255, 5},  {257, 8},   {64, 36},  {2, 4096},   {3, 4097},
              {5, 819}, {16, 257}, {1021, 4}, {31, 1000}, {1, 4099}, {1021, 1031}};
    }
    std::vector<Problem> problems;
    for (const std::int64_t n : {0, 1, 7, 31, 33, 255, 257, 1021, 4095, 4096, 4097, 65537}) {
      problems.push_back({1, n});
    }
    return problems;
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    const bool host = backend == ladder::Backend::host;
    if (is_chain) {
      if (host) return {{16, 4096}, {97, 1031}};
      return {{256, 4096}, {9973, 10007}, {65536, 4096}};
    }
    if (host) return {{1, 1 << 16}, {1, 100'003}};
    return {{1, 1 << 20}, {1, 100'000'007}, {1, 1 << 28}};
  }
  static const char* best(const Problem&) {
    if (is_chain) return "v24_";
    return std::same_as<Op, add> || std::same_as<Op, silu_mul> ? "v09_" : "v07_";
  }
  static std::vector<ladder::InputSet> input_sets() { return input_sets_of<Op>(); }
  static Problem smaller(const Problem& p) {
    const std::int64_t cols = ladder::shortened(p.cols, 1 << 20);
    return {ladder::fewer_rows(p.rows, cols), cols};
  }

  static double flops(const Problem& p) { return Op::flops * static_cast<double>(elements(p)); }

  // The whole limit is in the magnitudes, which hold the error allowed: see reference.hpp.
  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    std::vector<ladder::Array> all{ladder::input<T>("x", elements(p))};
    if (is_chain) {
      all.push_back(ladder::input<T>("bias", p.cols));
      all.push_back(ladder::input<T>("residual", elements(p)));
    } else if (Op::inputs == 2) {
      all.push_back(ladder::input<T>("other", elements(p)));
    }
    all.push_back(ladder::output<T>("y", elements(p), {.scaled = 1}));
    return all;
  }
  template <class T>
  static Args<Op, T> bind(const Problem& p, ladder::Operands of) {
    if constexpr (is_chain) {
      return {of["x"], of["bias"], of["residual"], of["y"], elements(p), p.cols, nullptr};
    } else if constexpr (Op::inputs == 2) {
      return {.x = {of["x"], of["other"]}, .y = of["y"], .n = elements(p)};
    } else {
      return {.x = {of["x"]}, .y = of["y"], .n = elements(p)};
    }
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const Args<Op, T> args = bind<T>(p, of);
    ladder::Expected expected = ladder::zeros(elements(p));
    ladder::parallel_for(expected.values.size(), 1 << 18, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const Answer y = answer(args, static_cast<std::int64_t>(i));
        expected.values[i] = y.value;
        expected.magnitude[i] = y.allowed;
      }
    });
    return ladder::answers(std::move(expected));
  }

#if defined(LADDER_CUDA_BACKEND)
  // The tests' problems go by the CPU's reference, so that each kernel is checked against both.
  static bool wants_gpu_reference(const Problem& p) { return elements(p) > 1 << 24; }
  template <class T>
  static void reference_on_gpu(const Args<Op, T>& args, std::span<const ladder::AnswerOnGpu> y) {
    elementwise::reference_on_gpu(args, y[0]);
  }
#endif
};

template <class Op>
using Family = ladder::RegisterFamily<Contract<Op>, float, ladder::half, ladder::bfloat16>;
const Family<relu> register_relu;
const Family<add> register_add;
const Family<gelu> register_gelu;
const Family<gelu_tanh> register_gelu_tanh;
const Family<gelu_tanh_approx> register_gelu_tanh_approx;
const Family<silu_mul> register_silu_mul;
const Family<bias_gelu_residual> register_bias_gelu_residual;

}  // namespace
}  // namespace elementwise
