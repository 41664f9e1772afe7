#include "harness/family.hpp"
#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

// exp overflows in fp32 above 88 and underflows below -103.
double large_value(std::uint64_t bits, int input) {
  return 100 * ladder::uniform_value(bits, input);
}

// A quarter of the elements is masked.
double masked_value(std::uint64_t bits, int input) {
  return bits % 4 == 0 ? -std::numeric_limits<double>::infinity()
                       : ladder::uniform_value(bits, input);
}

// One element in 64 is so large that the others vanish beside it.
double one_huge_value(std::uint64_t bits, int input) {
  return bits % 64 == 0 ? 1e4 : ladder::uniform_value(bits, input);
}

double constant_value(std::uint64_t, int) { return -3.25; }

struct Contract : softmax {
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
            {"masked", masked_value},
            {"one huge", one_huge_value},
            {"constant", constant_value}};
  }

  // Useful operations of an element: comparison, subtraction, exp, addition, product.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const double n = static_cast<double>(p.rows) * p.cols;
    const double bytes = n * static_cast<double>(ladder::size_of(dtype));
    return {.flops = 5 * n, .bytes_read = bytes, .bytes_written = bytes};
  }

  // The terms are made in reference(), in units of u; the type's own rounding comes on top.
  static ladder::Tolerance tolerance(const Problem&, ladder::DType dtype) {
    const double rounding = dtype == ladder::DType::f32 ? 0 : ladder::unit_roundoff(dtype);
    return {.relative = rounding, .scaled = kU * (1 + rounding)};
  }

  static std::vector<std::size_t> input_sizes(const Problem& p) { return {output_size(p)}; }
  static std::size_t output_size(const Problem& p) {
    return static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.cols);
  }

  template <class T>
  static Args<T> bind(const Problem& p, std::span<T* const> inputs, T* output) {
    return {.x = inputs[0], .y = output, .rows = p.rows, .cols = p.cols};
  }

  template <class T>
  static ladder::Expected reference(const Problem& p, std::span<const std::vector<T>> inputs) {
    const auto cols = static_cast<std::size_t>(p.cols);
    const double row_error = error_of_a_row(p.cols), underflow = least_step<T>() / kU;
    ladder::Expected y{.values = std::vector<double>(output_size(p)),
                       .magnitude = std::vector<double>(output_size(p))};
    auto rows = [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const T* const x = &inputs[0][row * cols];
        double* const value = &y.values[row * cols];
        double* const magnitude = &y.magnitude[row * cols];
        float max = -std::numeric_limits<float>::infinity();
        for (std::size_t c = 0; c < cols; ++c) max = std::max(max, static_cast<float>(x[c]));
        double sum = 0, weighted = 0;  // weighted by exp: the distances from the maximum
        for (std::size_t c = 0; c < cols; ++c) {
          const double distance = static_cast<double>(max) - static_cast<double>(float(x[c]));
          value[c] = std::exp(-distance);
          sum += value[c];
          magnitude[c] = value[c] > 0 ? value[c] * distance : 0;
          weighted += magnitude[c];
        }
        const double of_all = row_error + kOfExponent * weighted / sum;
        for (std::size_t c = 0; c < cols; ++c) {
          value[c] /= sum;
          magnitude[c] = kOfExponent * magnitude[c] / sum + of_all * value[c] + underflow;
        }
      }
    };
    if (cols > 0) ladder::parallel_for(static_cast<std::size_t>(p.rows), 1 + 65536 / cols, rows);
    return y;
  }

 private:
  static constexpr double kU = 0x1p-24;  // fp32's unit roundoff

  // The error of an element y = exp(-d) / sum, in units of u * y. d = max - x is rounded, which
  // costs d; __expf, the least exact exp, is wrong by 2 + 1.173 d units in the last place (CUDA C++
  // Programming Guide, intrinsic functions), each up to 2 u: together 3.346 d + 4. The exps in the
  // sum bring the same, with the mean of their d, weighted by exp(-d).
  static constexpr double kOfExponent = 3.346;

  // What depends on the row's length n only, in units of u:
  //   4 + 4 + 2    both exps at d = 0, the division and the product
  //   additions    at most n, and taken as independent lambda * sqrt(n) but for a probability that
  //                falls like exp(-lambda^2 / 2) (Higham and Mary, A New Approach to Probabilistic
  //                Rounding Error Analysis, 2019)
  //   rescalings   of online sums, 5 each, when the maximum moves, and 2 when threads merge. The d
  //                of the steps add up to the whole d, counted above. The i-th of n random numbers
  //                is the largest so far with probability 1/i (Renyi): about H(n) steps, with a
  //                variance below H(n).
  static double error_of_a_row(int cols) {
    constexpr double kLambda = 8;
    const double n = std::max(cols, 1), harmonic = std::log(n) + 1;
    const double additions = std::min(n, kLambda * std::sqrt(n));
    const double rescalings = 2 + std::min(n, harmonic + kLambda * std::sqrt(harmonic));
    return 10 + additions + 5 * rescalings;
  }

  // Below fp32's normal numbers a library may flush to zero, as nvcc -ftz=true does: exp and the
  // product. Below those of f16 and bf16 a result is off by half a step.
  template <class T>
  static double least_step() {
    const double of_output = ladder::DTypeOf<T>::value == ladder::DType::f16    ? 0x1p-25
                             : ladder::DTypeOf<T>::value == ladder::DType::bf16 ? 0x1p-134
                                                                                : 0;
    return 0x1p-125 + of_output;
  }
};

const ladder::RegisterFamily<Contract, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
