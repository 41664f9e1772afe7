#include "harness/family.hpp"
#include "matrix_reduction.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>

namespace matrix_reduction {
namespace {

using ladder::Array;

// Of one sign, because in a sum that cancels a lost element would hide within the limit.
double positive_value(std::uint64_t bits, const Array&) {
  return 0.5 + 0.5 * ladder::uniform(bits);
}

// Integers from 1 to 8: sums of up to 2^21 are exact in fp32, and each is missed where it is
// missing.
double small_integer_value(std::uint64_t bits, const Array&) {
  return 1 + static_cast<double>(bits % 8);
}

// Now and then a number beside which all others are nothing; more than fp16 holds.
double huge_value(std::uint64_t bits, const Array& array) {
  return bits % 1024 == 0 ? 0x1p100 : positive_value(bits >> 10, array);
}

// Numbers so small that fp32 has fewer digits for them; fp16 has zeros.
double denormal_value(std::uint64_t bits, const Array&) {
  return (static_cast<double>(bits % 255) - 127) * 0x1p-136;
}

double some_minus_infinity(std::uint64_t bits, const Array&) {
  return bits % 512 == 0 ? -std::numeric_limits<double>::infinity() : ladder::uniform(bits >> 9);
}

double constant_value(std::uint64_t, const Array&) { return -3.25; }

template <class Op>
struct Contract : Op {
  static constexpr bool of_rows = std::same_as<Op, row_sum>;

  static std::vector<ladder::Field> fields() {
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;  // blocks of a grid, one per row
    return {ladder::size<&Problem::rows>("ROWS").to(kMost),
            ladder::size<&Problem::cols>("COLS").to(kMost)};
  }

  // Rows go to a warp up to 2 KiB, to 1024 threads beyond 64 KiB. Columns go in tiles of 32, or as
  // vectors of 128 and 256; parts of them have 64 rows or more, and more than 64 parts take a third
  // pass.
  static std::vector<Problem> test_problems() {
    std::vector<Problem> problems{{0, 5},    {3, 0},    {1, 1},    {1, 7},    {7, 1},
                                  {31, 33},  {33, 31},  {5, 256},  {9, 511},  {3, 512},
                                  {3, 1023}, {2, 1024}, {5, 1025}, {2, 4099}, {129, 36}};
    if (of_rows) {
      problems.insert(problems.end(), {{1, 9001}, {2, 50257}, {1, 131'073}});
    } else {
      problems.insert(problems.end(), {{1023, 13}, {1025, 8}, {257, 264}, {8193, 4}, {9001, 1}});
    }
    return problems;
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{64, 1024}, {37, 1031}, {77, 520}, {256, 32}};
    return {{8192, 1024},  {8192, 4096},   {8192, 8191},  {8192, 8192},
            {65536, 4096}, {128, 1 << 20}, {1 << 20, 128}};
  }
  static const char* best(const Problem&) { return of_rows ? "v06_" : "v14_"; }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", positive_value},  {"small integers", small_integer_value, true},
            {"huge", huge_value},         {"denormal", denormal_value},
            {"constant", constant_value}, {"some minus infinity", some_minus_infinity}};
  }

  // Rows that add up to a column are long sums too; 8192 take all passes.
  static Problem smaller(const Problem& p) {
    if (of_rows) {
      const std::int64_t cols = ladder::shortened(p.cols, 1 << 17);
      return {ladder::fewer_rows(p.rows, cols), cols};
    }
    const std::int64_t rows = ladder::shortened(p.rows, 8192);
    return {rows, ladder::shortened(p.cols, (1 << 22) / std::max<std::int64_t>(rows, 1))};
  }

  static double flops(const Problem& p) {
    return static_cast<double>(p.rows) * static_cast<double>(p.cols);
  }

  // The magnitudes are in units of fp32's roundoff.
  template <class T>
  static std::vector<Array> arrays(const Problem& p) {
    return {ladder::input<T>("x", {p.rows, p.cols}),
            ladder::output<float>("y", of_rows ? p.rows : p.cols, {.scaled = 0x1p-24})};
  }
  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    return {.x = of["x"], .y = of["y"], .rows = p.rows, .cols = p.cols, .workspace = nullptr};
  }

  // A sum of n numbers takes n - 1 additions, whatever their order, each off by at most u times
  // what it makes, which is at most the sum of the magnitudes; and taken as independent they make
  // lambda sqrt(n) u of that, but for a probability that falls like exp(-lambda^2 / 2) (Higham and
  // Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    constexpr double kLambda = 8;
    const std::span<const T> all = of["x"];
    const auto rows = static_cast<std::size_t>(p.rows), cols = static_cast<std::size_t>(p.cols);
    const auto n = static_cast<double>(of_rows ? cols : rows);
    const double additions = std::min(n, kLambda * std::sqrt(n));
    ladder::Expected y = ladder::zeros(of_rows ? rows : cols);
    const auto add = [&](std::size_t to, std::size_t from) {
      const double x = static_cast<float>(all[from]);
      y.values[to] += x;
      y.magnitude[to] += additions * std::abs(x);
    };
    const std::size_t grain = 1 + (1 << 18) / std::max<std::size_t>(1, of_rows ? cols : rows);
    ladder::parallel_for(y.values.size(), grain, [&](std::size_t begin, std::size_t end) {
      if (of_rows) {
        for (std::size_t r = begin; r < end; ++r) {
          for (std::size_t c = 0; c < cols; ++c) add(r, r * cols + c);
        }
      } else {
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t c = begin; c < end; ++c) add(c, r * cols + c);
        }
      }
    });
    return ladder::answers(std::move(y));
  }
};

template <class Op>
using Family = ladder::RegisterFamily<Contract<Op>, float, ladder::half, ladder::bfloat16>;
const Family<row_sum> register_row_sum;
const Family<col_sum> register_col_sum;

}  // namespace
}  // namespace matrix_reduction
