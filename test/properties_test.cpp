// What must hold for the results of softmax, LayerNorm, RMSNorm and compensated sums whatever the
// inputs, and kernels with well-known mistakes, which their checks must reject.
#include "harness/family.hpp"

#include "kernels/gemm_tensor/gemm_tensor.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"
#include "kernels/softmax/softmax.hpp"

#include <gmock/gmock.h>

#include <cfloat>
#include <cmath>
#include <cstring>

namespace ladder {
namespace {

/// The host executor, and a GPU if there is one.
const std::vector<std::unique_ptr<Device>>& devices() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Device>> made;
    made.push_back(open_host_device());
    try {
      made.push_back(open_cuda_device(0));
    } catch (const std::exception&) {
    }
    return made;
  }();
  return all;
}

constexpr std::uint64_t kSeed = 7;

/// What a kernel makes of random inputs, which are the same for the same seed.
std::vector<double> results(const Kernel& kernel, const char* problem, const InputSet& set,
                            Device& device) {
  const auto workload = family_of(kernel).open(problem, kernel.dtype, set, kSeed, device);
  workload->prepare(kernel);
  device.run(kernel, workload->args());
  std::vector<unsigned char> bytes(workload->output().bytes());
  device.download(bytes.data(), workload->output().data(), bytes.size());
  std::vector<double> values(workload->output_size());
  auto widen = [&](auto zero) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&zero, &bytes[i * sizeof zero], sizeof zero);
      values[i] = static_cast<double>(static_cast<float>(zero));
    }
  };
  switch (workload->output_dtype()) {
    case DType::f32:
      widen(float{});
      break;
    case DType::f16:
      widen(half{});
      break;
    case DType::bf16:
      widen(bfloat16{});
      break;
    default:
      ADD_FAILURE() << "no results of " << to_string(workload->output_dtype());
  }
  return values;
}

/// Calls test(kernel, device) for every version of a family's operation on every device that runs
/// it.
template <class F>
void for_each_kernel(std::string_view family, std::string_view op, F test) {
  int tested = 0;
  for (const auto& device : devices()) {
    for (const Kernel& kernel : device->kernels()) {
      if (kernel.family != family || kernel.op != op) continue;
      if (!architecture_supports(kernel.file, device->info()).ok) continue;
      SCOPED_TRACE(full_name(kernel));
      test(kernel, *device);
      ++tested;
    }
  }
  EXPECT_GT(tested, 0);
}

constexpr std::size_t kRows = 5, kCols = 1003;
constexpr const char* kProblem = "5x1003";

TEST(Softmax, RowsSumToOne) {
  for_each_kernel("softmax", "", [](const Kernel& kernel, Device& device) {
    const auto y = results(kernel, kProblem, {"uniform", uniform_value}, device);
    // Every element is rounded, and all of a row share the error of its fp32 sum.
    const double tolerance = unit_roundoff(kernel.dtype) + 1000 * unit_roundoff(DType::f32);
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < kCols; ++c) {
        EXPECT_GT(y[row * kCols + c], 0);
        sum += y[row * kCols + c];
      }
      EXPECT_NEAR(sum, 1, tolerance);
    }
  });
}

// Sixteenths below 1, which stay what they are when 8 is added, in bf16 too.
double sixteenth_value(std::uint64_t bits, int) { return static_cast<double>(bits % 16) / 16; }
double shifted_value(std::uint64_t bits, int input) { return sixteenth_value(bits, input) + 8; }

TEST(Softmax, IsInvariantToAShiftToTheLastBit) {
  for_each_kernel("softmax", "", [](const Kernel& kernel, Device& device) {
    if (kernel.version.baseline) return;  // a library may subtract in another way
    EXPECT_EQ(results(kernel, kProblem, {"sixteenths", sixteenth_value}, device),
              results(kernel, kProblem, {"shifted", shifted_value}, device));
  });
}

// Weights 1 and biases 0.
double plain_value(std::uint64_t bits, int input) {
  return input == 0 ? uniform_value(bits, input) : input == 1 ? 1 : 0;
}

TEST(LayerNorm, RowsHaveMeanZeroAndVarianceOne) {
  for_each_kernel("layernorm", "", [](const Kernel& kernel, Device& device) {
    const auto y = results(kernel, kProblem, {"plain", plain_value}, device);
    const double tolerance = unit_roundoff(kernel.dtype) + 1000 * unit_roundoff(DType::f32);
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0, squares = 0;
      for (std::size_t c = 0; c < kCols; ++c) {
        sum += y[row * kCols + c];
        squares += y[row * kCols + c] * y[row * kCols + c];
      }
      EXPECT_NEAR(sum / kCols, 0, tolerance);
      // eps takes its share of 1/3, the variance of the inputs, which is known to within a tenth.
      EXPECT_NEAR(squares / kCols, 1 - 3e-5, 2 * tolerance + 3e-6);
    }
  });
}

TEST(RmsNorm, RowsHaveMeanSquareOne) {
  for_each_kernel("rmsnorm", "", [](const Kernel& kernel, Device& device) {
    const auto y = results(kernel, kProblem, {"plain", plain_value}, device);
    const double tolerance = unit_roundoff(kernel.dtype) + 1000 * unit_roundoff(DType::f32);
    for (std::size_t row = 0; row < kRows; ++row) {
      double squares = 0;
      for (std::size_t c = 0; c < kCols; ++c) squares += y[row * kCols + c] * y[row * kCols + c];
      // eps takes its share of 1/3, the inputs' mean square, which is known to within a tenth.
      EXPECT_NEAR(squares / kCols, 1 - 3e-5, 2 * tolerance + 3e-6);
    }
  });
}

/// Where an output of several arrays has its second one: after the first, at a multiple of 16 bytes
/// of every type.
constexpr std::size_t kSecondAt = (kRows * kCols + 7) / 8 * 8;

// Where y does not change, its gradient is 0: a LayerNorm's rows may be shifted and, but for eps,
// all rows scaled. So each row of dx is orthogonal to (1, 1, …) and to x's normalized row.
void expect_orthogonal(const Kernel& kernel, Device& device, bool centred) {
  const auto out = results(kernel, kProblem, {"uniform", uniform_value}, device);
  // An element's error is its rounding and 1000 of fp32's; of kCols in a row few have one sign.
  const double tolerance = unit_roundoff(kernel.dtype) + 1000 * unit_roundoff(DType::f32);
  for (std::size_t row = 0; row < kRows; ++row) {
    double sum = 0, product = 0, size = 0, mean = 0;
    std::vector<double> x(kCols);
    for (std::size_t c = 0; c < kCols; ++c) {
      x[c] = uniform_value(random_bits(kSeed, 0, row * kCols + c), 0);
      mean += centred ? x[c] / kCols : 0;
    }
    for (std::size_t c = 0; c < kCols; ++c) {
      const double dx = out[row * kCols + c];
      sum += dx;
      product += dx * (x[c] - mean);
      size += std::abs(dx);
    }
    if (centred) EXPECT_NEAR(sum / size, 0, tolerance);
    // x is rounded to the type, and eps takes its share of 1/3, the variance.
    EXPECT_NEAR(product / size, 0, 2 * tolerance + 1e-5 / 0.3);
  }
}

TEST(LayerNorm, GradientsSumToZeroAndAreOrthogonalToTheRow) {
  for_each_kernel("layernorm", "backward", [](const Kernel& kernel, Device& device) {
    expect_orthogonal(kernel, device, true);
  });
}

TEST(RmsNorm, GradientsAreOrthogonalToTheRow) {
  for_each_kernel("rmsnorm", "backward", [](const Kernel& kernel, Device& device) {
    expect_orthogonal(kernel, device, false);
  });
}

// With dy = 1 dbias is the number of rows, and every row's part of dx is 0 where the weights are 1.
TEST(LayerNorm, GradientsOfAConstantAreCounts) {
  for_each_kernel("layernorm", "backward", [](const Kernel& kernel, Device& device) {
    const InputSet ones{"ones", [](std::uint64_t bits, int input) {
                          return input == 0 ? uniform_value(bits, input) : 1.0;
                        }};
    const auto out = results(kernel, kProblem, ones, device);
    const std::size_t dbias_at = kSecondAt + (kCols + 7) / 8 * 8;
    for (std::size_t i = 0; i < kRows * kCols; ++i) EXPECT_NEAR(out[i], 0, 1e-5);
    for (std::size_t c = 0; c < kCols; ++c) EXPECT_EQ(out[dbias_at + c], kRows);
  });
}

// Sixty-fourths below 1, of which every type holds the sums too.
double sixty_fourth_value(std::uint64_t bits, int) { return static_cast<double>(bits % 64) / 64; }

void expect_exact_sum(const Kernel& kernel, Device& device, int residual) {
  const auto out = results(kernel, kProblem, {"sixty-fourths", sixty_fourth_value}, device);
  for (std::size_t i = 0; i < kRows * kCols; ++i) {
    const double x = sixty_fourth_value(random_bits(kSeed, 0, i), 0);
    const double more = sixty_fourth_value(random_bits(kSeed, residual, i), residual);
    EXPECT_EQ(out[kSecondAt + i], x + more);
  }
}

TEST(LayerNorm, AddsTheResidualToTheLastBit) {
  for_each_kernel("layernorm", "add", [](const Kernel& kernel, Device& device) {
    expect_exact_sum(kernel, device, 3);
  });
}

TEST(RmsNorm, AddsTheResidualToTheLastBit) {
  for_each_kernel("rmsnorm", "add", [](const Kernel& kernel, Device& device) {
    expect_exact_sum(kernel, device, 2);
  });
}

constexpr std::size_t kSummands = 66'001;
constexpr const char* kSum = "66001";
constexpr double kLarge = 0x1p20;

std::uint64_t bits_of_summand(std::size_t i) { return random_bits(kSeed, 0, i); }

// Small numbers, hidden in large ones of both signs, of which the first summand leaves nothing.
double cancelling_value(std::uint64_t bits, int input) {
  static const double large_others = [] {
    double sum = 0;
    for (std::size_t i = 1; i < kSummands; ++i) {
      sum += bits_of_summand(i) % 2 == 0 ? kLarge : -kLarge;
    }
    return sum;
  }();
  if (bits == bits_of_summand(0)) return -large_others;
  return (bits % 2 == 0 ? kLarge : -kLarge) + uniform_value(bits, input);
}

TEST(Sum, LosesNothingWhereItIsCompensated) {
  long double exact = 0, magnitudes = 0;
  for (std::size_t i = 0; i < kSummands; ++i) {
    const auto x = static_cast<float>(cancelling_value(bits_of_summand(i), 0));
    exact += x;
    magnitudes += std::abs(x);
  }
  // A number goes through fewer than 32 additions, and so does what they round off.
  const double u = unit_roundoff(DType::f32);
  const auto limit = static_cast<double>(u * std::abs(exact) + 32 * u * 32 * u * magnitudes);
  for_each_kernel("reduction", "sum", [&](const Kernel& kernel, Device& device) {
    if (kernel.dtype != DType::f32) return;
    if (kernel.version.baseline) return;  // a library may add in any order
    const auto y = results(kernel, kSum, {"cancelling", cancelling_value}, device);
    const auto error = static_cast<double>(std::abs(y.front() - exact));
    if (full_name(kernel).ends_with("compensated")) {
      EXPECT_LE(error, limit);
    } else {
      EXPECT_GT(error, limit) << "these inputs are too easy";
    }
  });
}

TEST(Sum, OfInfinityIsInfinity) {
  for_each_kernel("reduction", "sum", [](const Kernel& kernel, Device& device) {
    const InputSet infinite{"infinite", [](std::uint64_t bits, int) {
                              return bits % 64 == 0 ? double{INFINITY} : 1.0;
                            }};
    EXPECT_EQ(results(kernel, kSum, infinite, device).front(), INFINITY);
  });
}

// --- Well-known mistakes: kernels in plain C++ on the host device's memory ----------------------

template <class Args, class F>
void launch(const void* args, cudaStream_t) {
  F{}(*static_cast<const Args*>(args));
}

/// What the check says of a kernel, on the inputs of that name.
template <class Contract, class T = float, class F>
Verdict verdict_on(F, const char* problem, std::string_view inputs) {
  using Args = typename Contract::template Args<T>;
  const Kernel kernel{Contract::family, Contract::op,  DTypeOf<T>::value, {""},
                      "v01_test.cu",    Backend::host, &launch<Args, F>,  nullptr};
  for (const InputSet& set : family_of(kernel).input_sets()) {
    if (set.name != inputs) continue;
    Device& host = *devices().front();
    const auto workload = family_of(kernel).open(problem, kernel.dtype, set, kSeed, host);
    return check(kernel, *workload, host).verdict;
  }
  ADD_FAILURE() << "no inputs are called " << inputs;
  return Verdict::failed;
}

/// A kernel from a function of one row.
template <class F>
auto softmax_by(F) {
  return [](const softmax::Args<float>& a) {
    for (int r = 0; r < a.rows; ++r) F{}(a.x + r * a.cols, a.y + r * a.cols, a.cols);
  };
}

TEST(SoftmaxCheck, AcceptsRightAndRejectsKnownMistakes) {
  auto right = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, x[c]);
    for (int c = 0; c < n; ++c) sum += std::exp(x[c] - max);
    for (int c = 0; c < n; ++c) y[c] = std::exp(x[c] - max) / sum;
  });
  auto without_maximum = softmax_by([](const float* x, float* y, int n) {
    float sum = 0;
    for (int c = 0; c < n; ++c) sum += std::exp(x[c]);
    for (int c = 0; c < n; ++c) y[c] = std::exp(x[c]) / sum;
  });
  auto without_last_summand = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, x[c]);
    for (int c = 0; c < n - 1; ++c) sum += std::exp(x[c] - max);
    for (int c = 0; c < n; ++c) y[c] = std::exp(x[c] - max) / sum;
  });
  auto online_without_rescaling = softmax_by([](const float* x, float* y, int n) {
    float max = -FLT_MAX, sum = 0;
    for (int c = 0; c < n; ++c) sum += std::exp(x[c] - (max = std::fmax(max, x[c])));
    for (int c = 0; c < n; ++c) y[c] = std::exp(x[c] - max) / sum;
  });
  auto online_from_infinity = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) {
      const float larger = std::fmax(max, x[c]);
      sum = sum * std::exp(max - larger) + std::exp(x[c] - larger);
      max = larger;
    }
    for (int c = 0; c < n; ++c) y[c] = std::exp(x[c] - max) / sum;
  });
  for (const char* inputs : {"uniform", "large", "masked", "one huge", "constant"}) {
    EXPECT_EQ(verdict_on<softmax>(right, "20x999", inputs), Verdict::passed) << inputs;
  }
  EXPECT_EQ(verdict_on<softmax>(without_maximum, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<softmax>(without_maximum, "20x999", "large"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(without_last_summand, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(online_without_rescaling, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(online_from_infinity, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<softmax>(online_from_infinity, "20x999", "masked"), Verdict::incorrect)
      << "a row that starts with -inf";
}

/// A kernel from a function that gives a row's mean and variance + eps.
template <class F>
auto layernorm_by(F) {
  return [](const layernorm::Args<float>& a) {
    for (int r = 0; r < a.rows; ++r) {
      const float* const x = a.x + r * a.cols;
      const auto [mean, variance] = F{}(x, a.cols);
      for (int c = 0; c < a.cols; ++c) {
        a.y[r * a.cols + c] = (x[c] - mean) / std::sqrt(variance) * a.weight[c] + a.bias[c];
      }
    }
  };
}
using Moments = std::pair<float, float>;

template <int kLess>
Moments two_pass(const float* x, int n, float eps) {
  float sum = 0, squares = 0;
  for (int c = 0; c < n; ++c) sum += x[c];
  const float mean = sum / static_cast<float>(n);
  for (int c = 0; c < n; ++c) squares += (x[c] - mean) * (x[c] - mean);
  return {mean, squares / static_cast<float>(n - kLess) + eps};
}

TEST(LayerNormCheck, AcceptsRightAndRejectsKnownMistakes) {
  constexpr float kEps = layernorm::kEpsilon;
  auto right = layernorm_by([](const float* x, int n) { return two_pass<0>(x, n, kEps); });
  auto of_a_sample = layernorm_by([](const float* x, int n) { return two_pass<1>(x, n, kEps); });
  auto without_eps = layernorm_by([](const float* x, int n) { return two_pass<0>(x, n, 0); });
  auto sum_of_squares = layernorm_by([](const float* x, int n) -> Moments {
    float sum = 0, squares = 0;
    for (int c = 0; c < n; ++c) {
      sum += x[c];
      squares += x[c] * x[c];
    }
    const float mean = sum / static_cast<float>(n);
    return {mean, squares / static_cast<float>(n) - mean * mean + kEps};
  });
  for (const char* inputs : {"uniform", "offset", "large", "outliers", "constant"}) {
    EXPECT_EQ(verdict_on<layernorm>(right, "20x999", inputs), Verdict::passed) << inputs;
  }
  EXPECT_EQ(verdict_on<layernorm>(of_a_sample, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<layernorm>(without_eps, "20x999", "constant"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<layernorm>(sum_of_squares, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<layernorm>(sum_of_squares, "20x999", "offset"), Verdict::incorrect);
}

enum class Mistake { none, mean_of_g, mean_of_gz, scale, last_row_of_dweight, weighted_dbias };

/// LayerNorm's gradients, with one mistake.
template <Mistake kMistake>
void layernorm_gradients(const layernorm_backward::Args<float>& a) {
  std::vector<double> dweight(a.cols), dbias(a.cols);
  for (int r = 0; r < a.rows; ++r) {
    const float* const x = a.x + r * a.cols;
    const float* const dy = a.dy + r * a.cols;
    const auto [mean, variance] = two_pass<0>(x, a.cols, layernorm::kEpsilon);
    const double scale = 1 / std::sqrt(variance);
    double of_g = 0, of_gz = 0;
    for (int c = 0; c < a.cols; ++c) {
      const double g = dy[c] * a.weight[c], z = (x[c] - mean) * scale;
      of_g += g / a.cols;
      of_gz += g * z / a.cols;
      if (kMistake != Mistake::last_row_of_dweight || r + 1 < a.rows) dweight[c] += dy[c] * z;
      dbias[c] += kMistake == Mistake::weighted_dbias ? g : dy[c];
    }
    if (kMistake == Mistake::mean_of_g) of_g = 0;
    if (kMistake == Mistake::mean_of_gz) of_gz = 0;
    for (int c = 0; c < a.cols; ++c) {
      const double dx = dy[c] * a.weight[c] - of_g - (x[c] - mean) * scale * of_gz;
      a.dx[r * a.cols + c] = static_cast<float>(kMistake == Mistake::scale ? dx : dx * scale);
    }
  }
  for (int c = 0; c < a.cols; ++c) {
    a.dweight[c] = static_cast<float>(dweight[c]);
    a.dbias[c] = static_cast<float>(dbias[c]);
  }
}

template <Mistake kMistake>
Verdict verdict_on_gradients(const char* inputs) {
  const auto kernel = [](const layernorm_backward::Args<float>& a) {
    layernorm_gradients<kMistake>(a);
  };
  return verdict_on<layernorm_backward>(kernel, "20x999", inputs);
}

TEST(LayerNormCheck, AcceptsRightGradientsAndRejectsKnownMistakes) {
  for (const char* inputs :
       {"uniform", "offset", "large", "outliers", "huge", "constant", "denormals"}) {
    EXPECT_EQ(verdict_on_gradients<Mistake::none>(inputs), Verdict::passed) << inputs;
  }
  EXPECT_EQ(verdict_on_gradients<Mistake::mean_of_g>("uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on_gradients<Mistake::mean_of_gz>("uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on_gradients<Mistake::scale>("uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on_gradients<Mistake::last_row_of_dweight>("uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on_gradients<Mistake::weighted_dbias>("uniform"), Verdict::incorrect);
}

/// A kernel from a function that gives what a row is divided by.
template <class F>
auto rmsnorm_by(F) {
  return [](const rmsnorm::Args<float>& a) {
    for (int r = 0; r < a.rows; ++r) {
      const float* const x = a.x + r * a.cols;
      const float root = F{}(x, a.cols);
      for (int c = 0; c < a.cols; ++c) a.y[r * a.cols + c] = x[c] / root * a.weight[c];
    }
  };
}

float mean_square(const float* x, int n, float mean = 0) {
  float squares = 0;
  for (int c = 0; c < n; ++c) squares += (x[c] - mean) * (x[c] - mean);
  return squares / static_cast<float>(n);
}

TEST(RmsNormCheck, AcceptsRightAndRejectsKnownMistakes) {
  constexpr float kEps = rmsnorm::kEpsilon;
  auto right =
      rmsnorm_by([](const float* x, int n) { return std::sqrt(mean_square(x, n) + kEps); });
  auto without_eps = rmsnorm_by([](const float* x, int n) { return std::sqrt(mean_square(x, n)); });
  auto eps_after_root =
      rmsnorm_by([](const float* x, int n) { return std::sqrt(mean_square(x, n)) + kEps; });
  auto without_last = rmsnorm_by([](const float* x, int n) {
    return std::sqrt(mean_square(x, n - 1) * static_cast<float>(n - 1) / static_cast<float>(n) +
                     kEps);
  });
  auto about_the_mean = rmsnorm_by([](const float* x, int n) {
    float sum = 0;
    for (int c = 0; c < n; ++c) sum += x[c];
    return std::sqrt(mean_square(x, n, sum / static_cast<float>(n)) + kEps);
  });
  for (const char* inputs : {"uniform", "large", "outliers", "tiny", "zero"}) {
    EXPECT_EQ(verdict_on<rmsnorm>(right, "20x999", inputs), Verdict::passed) << inputs;
  }
  EXPECT_EQ(verdict_on<rmsnorm>(without_eps, "20x999", "large"), Verdict::passed);
  EXPECT_EQ(verdict_on<rmsnorm>(without_eps, "20x999", "tiny"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<rmsnorm>(without_eps, "20x999", "zero"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<rmsnorm>(eps_after_root, "20x999", "tiny"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<rmsnorm>(without_last, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<rmsnorm>(about_the_mean, "20x999", "uniform"), Verdict::incorrect);
}

/// A product of A and the transpose of B from a function that adds up n products.
template <class T, class F>
auto product_by(F) {
  return [](const gemm_tensor::Args<T>& g) {
    std::vector<double> products(static_cast<std::size_t>(g.k));
    for (int row = 0; row < g.m; ++row) {
      for (int col = 0; col < g.n; ++col) {
        for (int k = 0; k < g.k; ++k) {
          products[static_cast<std::size_t>(k)] =
              widen(g.a[row * g.k + k]) * widen(g.b[col * g.k + k]);
        }
        const double sum = F{}(products.data(), g.k);
        g.c[row * g.n + col] = gemm_tensor::Output<T>(static_cast<float>(sum));
      }
    }
  };
}

/// Adds up as tensor cores do: a group of products and the sum so far, each cut off kBits bits below
/// the largest of them.
template <int kGroup, int kBits>
double cut_sum(const double* products, int n) {
  double sum = 0;
  for (int first = 0; first < n; first += kGroup) {
    double largest = std::abs(sum);
    for (int i = first; i < first + kGroup; ++i) largest = std::max(largest, std::abs(products[i]));
    const double unit = std::ldexp(1, std::ilogb(largest) - kBits);
    sum = std::trunc(sum / unit) * unit;
    for (int i = first; i < first + kGroup; ++i) sum += std::trunc(products[i] / unit) * unit;
  }
  return sum;
}

template <class T, int kGroup, int kBits>
void expect_the_check_tells_products_apart() {
  auto right = product_by<T>([](const double* p, int n) { return cut_sum<kGroup, kBits>(p, n); });
  auto without_last_slice =
      product_by<T>([](const double* p, int n) { return cut_sum<kGroup, kBits>(p, n - kGroup); });
  auto with_sums_of_bf16 = product_by<T>([](const double* p, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum = static_cast<float>(bfloat16(sum + static_cast<float>(p[i])));
    return double{sum};
  });
  constexpr const char* kSize = "64x64x4096";
  EXPECT_EQ((verdict_on<gemm_tensor_nt, T>(right, kSize, "uniform")), Verdict::passed);
  EXPECT_EQ((verdict_on<gemm_tensor_nt, T>(without_last_slice, kSize, "uniform")),
            Verdict::incorrect);
  EXPECT_EQ((verdict_on<gemm_tensor_nt, T>(with_sums_of_bf16, kSize, "uniform")),
            Verdict::incorrect);
}

TEST(GemmTensorCheck, AcceptsTensorCoresAndRejectsKnownMistakes) {
  expect_the_check_tells_products_apart<half, 16, 23>();
  expect_the_check_tells_products_apart<bfloat16, 16, 23>();
  expect_the_check_tells_products_apart<tfloat32, 8, 23>();
  expect_the_check_tells_products_apart<float8_e4m3, 32, 13>();
}

}  // namespace
}  // namespace ladder
