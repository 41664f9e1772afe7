#include "harness/family.hpp"
#include "transpose.hpp"

#include <algorithm>
#include <limits>

namespace {

using limits = std::numeric_limits<float>;

// What a kernel that computes with its elements would change; narrower types round to their own.
double edge_value(std::uint64_t bits, const ladder::Array&) {
  constexpr double kInfinity = limits::infinity(), kLeast = limits::denorm_min(),
                   kNan = limits::quiet_NaN(), kMost = limits::max();
  const double values[] = {0.0,     kNan,  kInfinity, -kInfinity, kLeast, -kLeast,
                           0x1p-24, kMost, -kMost,    65504.0,    1.0};
  return values[bits % std::size(values)];
}

struct Contract : transpose {
  static std::vector<ladder::Field> fields() {
    return {ladder::size<&Problem::rows>("ROWS"), ladder::size<&Problem::cols>("COLS")};
  }

  // Around the tiles of 32, 64 and 128; and whole vectors in tiles that are not whole.
  static std::vector<Problem> test_problems() {
    return {{0, 5},    {3, 0},    {1, 1},     {1, 31},    {33, 1},    {7, 3},     {8, 8},
            {31, 33},  {32, 32},  {33, 31},   {64, 64},   {65, 63},   {96, 160},  {100, 130},
            {40, 200}, {36, 76},  {127, 129}, {128, 128}, {129, 127}, {136, 264}, {257, 61},
            {1, 5000}, {5000, 1}, {2, 1031},  {1040, 8},  {256, 192}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{128, 128}, {100, 130}};
    return {{1000, 3000}, {4096, 4096}, {4095, 4097}, {64, 262144}, {262144, 64}, {8192, 8192}};
  }
  static Problem smaller(const Problem& p) {
    const auto side = [](int n) { return static_cast<int>(ladder::shortened(n, 1024)); };
    return {side(p.rows), side(p.cols)};
  }
  static const char* best(const Problem&) { return "v11_"; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value, true}, {"edges", edge_value, true}};
  }

  // There is nothing to compute. An element moved counts as one operation, as in an elementwise
  // operation of one step, so that the family has its place on a roofline.
  static double flops(const Problem& p) { return double{1} * p.rows * p.cols; }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    return {ladder::input<T>("in", {p.rows, p.cols}), ladder::output<T>("out", {p.cols, p.rows})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.in = of["in"], .out = of["out"], .rows = p.rows, .cols = p.cols};
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const std::span<const T> in = of["in"];
    const auto rows = static_cast<std::size_t>(p.rows), cols = static_cast<std::size_t>(p.cols);
    ladder::Expected out{.values = ladder::filled(in.size()), .magnitude = {}};
    constexpr std::size_t kBand = 64;  // rows of the input, whose lines stay in the CPU's cache
    auto bands = [&](std::size_t begin, std::size_t end) {
      for (std::size_t c = 0; c < cols; ++c) {
        for (std::size_t r = begin * kBand; r < std::min(end * kBand, rows); ++r) {
          out.values[c * rows + r] = static_cast<float>(in[r * cols + c]);
        }
      }
    };
    ladder::parallel_for(ladder::ceil_div(rows, kBand), 1, bands);
    return ladder::answers(std::move(out));
  }
};

const ladder::RegisterFamily<Contract, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
