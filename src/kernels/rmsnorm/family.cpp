#include "harness/family.hpp"
#include "rmsnorm.hpp"

#include <algorithm>
#include <cmath>

namespace {

// Inputs: 0 is x, 1 the weights; only x differs between the sets.

double large_value(std::uint64_t bits, int input) {
  return (input == 0 ? 1e4 : 1.0) * ladder::uniform_value(bits, input);
}

// One element in 64 is a hundred times as large as the others, like the outliers of language
// models.
double outlier_value(std::uint64_t bits, int input) {
  return input == 0 && bits % 64 == 0 ? 100 : ladder::uniform_value(bits, input);
}

// The mean of the squares is a thirtieth of eps.
double tiny_value(std::uint64_t bits, int input) {
  return (input == 0 ? 1e-3 : 1.0) * ladder::uniform_value(bits, input);
}

// Only eps keeps the results, which are 0, from being NaN.
double zero_value(std::uint64_t bits, int input) {
  return input == 0 ? 0 : ladder::uniform_value(bits, input);
}

struct Contract : rmsnorm {
  static constexpr const char* problem_help = "ROWSxCOLS, e.g. 8192x4096";

  static std::optional<Problem> parse(std::string_view text) {
    const auto d = ladder::parse_dimensions(text, 2, 0);
    constexpr std::int64_t kMost = 1 << 30;  // so that the kernels may count beyond it in an int
    if (!d || std::max((*d)[0], (*d)[1]) > kMost) return std::nullopt;
    return Problem{static_cast<int>((*d)[0]), static_cast<int>((*d)[1])};
  }
  static std::string text(const Problem& p) {
    return std::to_string(p.rows) + "x" + std::to_string(p.cols);
  }

  static std::vector<Problem> test_problems() {
    return {{0, 5},    {3, 0},    {1, 1},     {5, 1},     {3, 7},    {5, 31},
            {3, 33},   {5, 200},  {3, 257},   {1, 504},   {3, 1023}, {3, 1024},
            {3, 1025}, {1, 2048}, {1, 4095},  {2, 4096},  {3, 4097}, {1, 5000},
            {1, 8200}, {1, 9001}, {2, 20000}, {1, 33003}, {1, 40000}};
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return {{16, 1024}, {5, 4097}};
    return {{8192, 1024}, {8192, 4096}, {8192, 8192}, {4096, 32768}, {1024, 50257}};
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {"large", large_value},
            {"outliers", outlier_value},
            {"tiny", tiny_value},
            {"zero", zero_value}};
  }

  // Useful operations of an element: two for the mean of the squares, two for the result.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double n = static_cast<double>(p.rows) * p.cols;
    const auto size = static_cast<double>(ladder::size_of(dtype));
    return {.flops = 4 * n, .bytes_read = (n + p.cols) * size, .bytes_written = n * size};
  }

  // The terms are made in reference(), in units of u; the type's own rounding comes on top.
  static ladder::Tolerance tolerance(const Problem&, ladder::DType dtype) {
    const double rounding = dtype == ladder::DType::f32 ? 0 : ladder::unit_roundoff(dtype);
    return {.relative = rounding, .scaled = kU * (1 + rounding)};
  }

  static std::vector<std::size_t> input_sizes(const Problem& p) {
    return {output_size(p), static_cast<std::size_t>(p.cols)};
  }
  static std::size_t output_size(const Problem& p) {
    return static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.cols);
  }

  template <class T>
  static Args<T> bind(const Problem& p, std::span<T* const> inputs, T* output) {
    return {.x = inputs[0], .weight = inputs[1], .y = output, .rows = p.rows, .cols = p.cols};
  }

  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::vector<T>> inputs) {
    const auto cols = static_cast<std::size_t>(p.cols);
    const std::vector<double> weight(inputs[1].begin(), inputs[1].end());
    ladder::Expected y{.values = std::vector<double>(output_size(p)),
                       .magnitude = std::vector<double>(output_size(p))};
    auto rows = [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const T* const x = &inputs[0][row * cols];
        double* const value = &y.values[row * cols];
        double* const magnitude = &y.magnitude[row * cols];
        double squares = 0;
        for (std::size_t c = 0; c < cols; ++c) {
          value[c] = static_cast<double>(static_cast<float>(x[c]));
          squares += value[c] * value[c];
        }
        const double mean = squares / static_cast<double>(cols);
        const double scale = 1 / std::sqrt(mean + static_cast<double>(kEpsilon));
        for (std::size_t c = 0; c < cols; ++c) {
          value[c] *= scale * weight[c];
          magnitude[c] = error(p.cols) * std::abs(value[c]) + least_step<T>() / kU;
        }
      }
    };
    if (cols > 0) ladder::parallel_for(static_cast<std::size_t>(p.rows), 1 + 65536 / cols, rows);
    return y;
  }

 private:
  static constexpr double kU = 0x1p-24;  // fp32's unit roundoff

  // How far y = x * r * weight with r = 1 / sqrt(mean of x^2 + eps) may be off, relative to itself,
  // in units of u. With s the roundings of a sum of n terms (at most n; taken as independent,
  // lambda * sqrt(n) but for a probability that falls like exp(-lambda^2 / 2): Higham and Mary, A
  // New Approach to Probabilistic Rounding Error Analysis, 2019):
  //   mean     s + 2 for the squares and the division; no square is negative, so nothing cancels
  //   r        half of that, and 5 for the addition and rsqrt (2 units in the last place)
  //   y        2 products
  static double error(int cols) {
    constexpr double kLambda = 8;
    const double n = cols, s = std::min(n, kLambda * std::sqrt(n));
    return (s + 2) / 2 + 5 + 2;
  }

  // Below the normal numbers rounding errors are half a step: fp32's and the output type's.
  template <class T>
  static double least_step() {
    const double of_output = ladder::DTypeOf<T>::value == ladder::DType::f16    ? 0x1p-25
                             : ladder::DTypeOf<T>::value == ladder::DType::bf16 ? 0x1p-134
                                                                                : 0;
    return 0x1p-149 + of_output;
  }
};

const ladder::RegisterFamily<Contract, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
