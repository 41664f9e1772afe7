#include "harness/family.hpp"
#include "elementwise.hpp"

#include <cmath>
#include <limits>

namespace elementwise {
namespace {

// Numbers at the edges of fp32; narrower types round them to their own edges. Infinities have one
// sign in each input, so that no sum is a NaN, which could hide an element that was never written.
double edge_value(std::uint64_t bits, int input) {
  using limits = std::numeric_limits<float>;
  const double infinity = input == 0 ? -limits::infinity() : 0.5;
  const double values[] = {0.0,
                           -0.0,
                           limits::denorm_min(),
                           -limits::denorm_min(),
                           limits::min(),
                           -limits::min(),
                           limits::max(),
                           limits::lowest(),
                           infinity,
                           1.0,
                           -1.0,
                           65504.0};
  return values[bits % std::size(values)];
}

template <class Op>
struct Contract : Op {
  static constexpr const char* problem_help = "N elements, at least 1, e.g. 16777216";

  static std::optional<Problem> parse(std::string_view text) {
    const auto n = ladder::parse_dimensions(text, 1, 0);
    return n ? std::optional(Problem{n->front()}) : std::nullopt;
  }
  static std::string text(const Problem& p) { return std::to_string(p.n); }

  static std::vector<Problem> test_problems() {
    return {{0}, {1}, {7}, {31}, {33}, {255}, {257}, {1021}, {4096}, {65537}, {1 << 20}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{1 << 16}, {100'003}};
    return {{1 << 20}, {1 << 24}, {1 << 28}, {100'000'007}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value}, {"edges", edge_value}};
  }

  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const auto n = static_cast<double>(p.n);
    const auto size = static_cast<double>(ladder::size_of(dtype));
    return {.flops = n, .bytes_read = Op::inputs * n * size, .bytes_written = n * size};
  }
  // Both operations are one correctly rounded step, so the only right answer is the nearest number.
  static ladder::Tolerance tolerance(const Problem&, ladder::DType) { return {}; }

  static std::vector<std::size_t> input_sizes(const Problem& p) {
    return std::vector<std::size_t>(Op::inputs, static_cast<std::size_t>(p.n));
  }
  static std::size_t output_size(const Problem& p) { return static_cast<std::size_t>(p.n); }

  template <class T>
  static Args<Op, T> bind(const Problem& p, std::span<T* const> inputs, T* output) {
    Args<Op, T> args{.x = {}, .y = output, .n = p.n};
    for (std::size_t i = 0; i < inputs.size(); ++i) args.x[i] = inputs[i];
    return args;
  }

  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::vector<T>> x) {
    ladder::Expected expected{.values = std::vector<double>(static_cast<std::size_t>(p.n)),
                              .magnitude = {}};
    ladder::parallel_for(expected.values.size(), 1 << 18, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        double exact = static_cast<float>(x[0][i]);
        if constexpr (Op::inputs == 1) {
          exact = exact < 0 ? 0 : exact;
        } else {
          exact += static_cast<double>(static_cast<float>(x[1][i]));
        }
        expected.values[i] = static_cast<float>(T(static_cast<float>(exact)));
      }
    });
    return expected;
  }
};

const ladder::RegisterFamily<Contract<relu>, float, ladder::half, ladder::bfloat16> register_relu;
const ladder::RegisterFamily<Contract<add>, float, ladder::half, ladder::bfloat16> register_add;

}  // namespace
}  // namespace elementwise
