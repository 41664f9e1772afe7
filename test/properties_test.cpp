// What must hold for the results of activations, softmax, LayerNorm, RMSNorm and compensated sums whatever the
// inputs; and wrong elements of every type, and kernels with well-known mistakes, which checks must reject.
#include "harness/family.hpp"

#include "kernels/attention/contract.hpp"
#include "kernels/gemm_tensor/gemm_tensor.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"
#include "kernels/softmax/softmax.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>

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

constexpr std::size_t kRows = 5, kCols = 1003;
constexpr const char* kProblem = "5x1003";
constexpr std::uint64_t kSeed = 7;

/// What a kernel makes of random inputs, which are the same for the same seed: each of its outputs.
std::vector<std::vector<double>> all_results(const Kernel& kernel, const char* problem,
                                             const InputSet& set, Device& device) {
  const Family& family = family_of(kernel);
  const auto workload = family.open(family.problem(problem), kernel.dtype, set, kSeed, device);
  device.run(kernel, workload->prepare(kernel).call);
  std::vector<std::vector<double>> all;
  for (const Workload::Result& result : workload->results()) {
    std::vector<unsigned char> bytes(result.written->bytes());
    device.download(bytes.data(), result.written->data(), bytes.size());
    std::vector<double>& values = all.emplace_back(result.array.size);
    auto widen = [&](auto zero) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::memcpy(&zero, &bytes[i * sizeof zero], sizeof zero);
        values[i] = static_cast<double>(static_cast<float>(zero));
      }
    };
    switch (result.array.dtype) {
      case DType::f32:
        widen(float{});
        break;
      case DType::f16:
        widen(half{});
        break;
      case DType::bf16:
        widen(bfloat16{});
        break;
      case DType::f64:
        widen(double{});
        break;
      default:
        ADD_FAILURE() << "no results of " << to_string(result.array.dtype);
    }
  }
  return all;
}

/// The only output, or the first.
std::vector<double> results(const Kernel& kernel, const char* problem, const InputSet& set,
                            Device& device) {
  return all_results(kernel, problem, set, device).front();
}

/// Calls test(kernel, device) for every version of a family's operation on every device that runs
/// it, unless it refuses kProblem.
template <class F>
void for_each_kernel(std::string_view family, std::initializer_list<std::string_view> ops,
                     const char* text, F test) {
  int tested = 0;
  for (const auto& device : devices()) {
    for (const Kernel& kernel : device->kernels()) {
      if (kernel.family != family || std::ranges::find(ops, kernel.op) == ops.end()) continue;
      if (!architecture_supports(kernel.file, device->info()).ok) continue;
      const Family& of = family_of(kernel);
      const auto problem = of.parse(text);
      if (problem && !supports(kernel, *problem).ok) continue;
      SCOPED_TRACE(full_name(kernel));
      test(kernel, *device);
      ++tested;
    }
  }
  EXPECT_GT(tested, 0);
}
template <class F>
void for_each_kernel(std::string_view family, std::initializer_list<std::string_view> ops, F test) {
  for_each_kernel(family, ops, kProblem, test);
}

// Steps of 1/32 from -4 to 4, which bf16 holds, and a gate of 1.
double gated_value(std::uint64_t bits, const Array& array) {
  return array.name == "x" ? (static_cast<double>(bits % 257) - 128) / 32 : 1;
}
double gated_minus_value(std::uint64_t bits, const Array& array) {
  return array.name == "x" ? -gated_value(bits, array) : 1;
}
// The same, a bias of 0 and a residual of 0.
double alone_value(std::uint64_t bits, const Array& array) {
  return array.name == "x" ? gated_value(bits, array) : 0;
}
double alone_minus_value(std::uint64_t bits, const Array& array) {
  return -alone_value(bits, array);
}

// x Phi(x) + x Phi(-x) = x, and the same with any other sigmoid, or a step, in place of Phi.
TEST(Activations, OfXAndOfMinusXDifferByX) {
  const std::initializer_list<std::string_view> ops = {
      "relu", "gelu", "gelu_tanh", "gelu_tanh_approx", "silu_mul", "bias_gelu_residual"};
  for_each_kernel("elementwise", ops, [](const Kernel& kernel, Device& device) {
    const std::string_view op = kernel.op;
    const bool gated = op == "silu_mul";
    const InputSet set{"x", gated ? gated_value : alone_value};
    const InputSet minus{"-x", gated ? gated_minus_value : alone_minus_value};
    constexpr std::size_t kElements = 5000;
    const auto y = results(kernel, "5000", set, device);
    const auto of_minus = results(kernel, "5000", minus, device);
    // Each is off by its rounding and by 8 of fp32's, of |x| at most and of 0.2 where it is
    // negative; and what tanh.approx may cost twice.
    const double rounding = unit_roundoff(kernel.dtype) + 8 * unit_roundoff(DType::f32) +
                            (op == "gelu_tanh_approx" ? 0x1p-11 : 0);
    for (std::size_t i = 0; i < kElements; ++i) {
      const double x = set.value(random_bits(kSeed, 0, i), input<float>("x", 0));
      ASSERT_NEAR(y[i] - of_minus[i], x, rounding * (std::abs(x) + 0.4)) << "x = " << x;
    }
  });
}

// Every element is rounded, and all of a row share the error of its fp32 sum.
double tolerance_of_a_row(DType dtype) {
  return unit_roundoff(dtype) + 1000 * unit_roundoff(DType::f32);
}

TEST(Softmax, RowsSumToOne) {
  for_each_kernel("softmax", {""}, [](const Kernel& kernel, Device& device) {
    const auto y = results(kernel, kProblem, {"uniform", uniform_value}, device);
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < kCols; ++c) {
        EXPECT_GT(y[row * kCols + c], 0);
        sum += y[row * kCols + c];
      }
      EXPECT_NEAR(sum, 1, tolerance_of_a_row(kernel.dtype));
    }
  });
}

// Sixteenths below 1, which stay what they are when 8 is added, in bf16 too.
double sixteenth_value(std::uint64_t bits, const Array&) {
  return static_cast<double>(bits % 16) / 16;
}
double shifted_value(std::uint64_t bits, const Array& array) {
  return sixteenth_value(bits, array) + 8;
}

TEST(Softmax, IsInvariantToAShiftToTheLastBit) {
  for_each_kernel("softmax", {"", "log", "causal"}, [](const Kernel& kernel, Device& device) {
    if (kernel.version.baseline) return;  // a library may subtract in another way
    EXPECT_EQ(results(kernel, kProblem, {"sixteenths", sixteenth_value}, device),
              results(kernel, kProblem, {"shifted", shifted_value}, device));
  });
}

TEST(Softmax, OfWhatIsSeenSumsToOneAndTheRestIsZero) {
  for_each_kernel("softmax", {"causal"}, [](const Kernel& kernel, Device& device) {
    constexpr std::size_t kHigh = 207, kWide = 203;  // the first four rows see nothing
    const auto y = results(kernel, "207x203", {"uniform", uniform_value}, device);
    for (std::size_t row = 0; row < kHigh; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < kWide; ++c) {
        const double value = y[row * kWide + c];
        EXPECT_EQ(value > 0, c + kHigh <= row + kWide) << row << ", " << c << ": " << value;
        sum += value;
      }
      EXPECT_NEAR(sum, row < 4 ? 0 : 1, tolerance_of_a_row(kernel.dtype));
    }
  });
}

TEST(Softmax, DoesNotSeeWhatIsMasked) {
  for_each_kernel("softmax", {"causal"}, [](const Kernel& kernel, Device& device) {
    // One row higher than wide: the first sees nothing, and its NaNs stay its own.
    const InputSet nans{"NaNs", [](std::uint64_t, const Array&) { return std::nan(""); }};
    const auto y = results(kernel, "2x1", nans, device);
    EXPECT_EQ(y[0], 0);
    EXPECT_TRUE(std::isnan(y[1]));
  });
}

// The logarithm of what the first version of the plain operation gives for the same inputs, but for
// the roundings of both.
TEST(LogSoftmax, IsTheLogarithmOfSoftmax) {
  for_each_kernel("softmax", {"log"}, [](const Kernel& kernel, Device& device) {
    if (kernel.dtype != DType::f32) return;
    const auto kernels = device.kernels();
    const auto plain = std::find_if(kernels.begin(), kernels.end(), [](const Kernel& k) {
      return full_name(k) == "softmax/f32/v01_naive";
    });
    ASSERT_NE(plain, kernels.end());
    const auto y = results(*plain, kProblem, {"uniform", uniform_value}, device);
    const auto log_y = results(kernel, kProblem, {"uniform", uniform_value}, device);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(log_y[i], std::log(y[i]), 2 * tolerance_of_a_row(kernel.dtype));
    }
  });
}

TEST(LogSoftmax, RowsAreLogarithmsOfWhatSumsToOne) {
  for_each_kernel("softmax", {"log"}, [](const Kernel& kernel, Device& device) {
    const auto log_y = results(kernel, kProblem, {"uniform", uniform_value}, device);
    // A logarithm is up to log(1003) + 2 < 9, and its absolute error the exponential's relative
    // one.
    const double tolerance = 9 * unit_roundoff(kernel.dtype) + tolerance_of_a_row(DType::f32);
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < kCols; ++c) sum += std::exp(log_y[row * kCols + c]);
      EXPECT_NEAR(sum, 1, tolerance);
    }
  });
}

// Shifting a row changes no result, so its gradient has no component along the shift. 1024 results
// of 2^-10 each are a row that sums to 1 exactly; of their logarithms, the type's roundings show.
TEST(SoftmaxGradient, RowsSumToZero) {
  const InputSet equal{"equal", [](std::uint64_t bits, const Array& array) {
                         return array.name == "y" ? 0x1p-10 : uniform(bits);
                       }};
  const InputSet equal_logs{"equal logarithms", [](std::uint64_t bits, const Array& array) {
                              return array.name == "y" ? std::log(0x1p-10) : uniform(bits);
                            }};
  for_each_kernel("softmax", {"backward", "log_backward"},
                  [&](const Kernel& kernel, Device& device) {
                    const bool is_log = kernel.op == std::string_view("log_backward");
                    constexpr std::size_t kEqual = 1024;
                    const auto dx = results(kernel, "5x1024", is_log ? equal_logs : equal, device);
                    for (std::size_t row = 0; row < 5; ++row) {
                      double sum = 0, magnitude = 0;
                      for (std::size_t c = 0; c < kEqual; ++c) {
                        sum += dx[row * kEqual + c];
                        magnitude += std::abs(dx[row * kEqual + c]);
                      }
                      EXPECT_GT(magnitude, 0);
                      // dy is up to 1: 1024 of them differ from their mean, times 1 or 2^-10, by as much at most.
                      const double most = is_log ? kEqual : 1;
                      const double of_log = is_log ? 7 * unit_roundoff(kernel.dtype) : 0;
                      EXPECT_NEAR(sum, 0, most * (tolerance_of_a_row(kernel.dtype) + of_log));
                    }
                  });
}

// The first of three sequences is the one that is alone in the other problem. v55 and v56 cut the keys
// of all sequences into equal parts.
TEST(Decode, GivesASequenceTheSameBitsInAnyBatch) {
  for_each_kernel("attention", {"decode"}, [](const Kernel& kernel, Device& device) {
    if (label(kernel).starts_with("v55") || label(kernel).starts_with("v56")) return;
    const InputSet uniform{"uniform", uniform_value};
    const auto alone = all_results(kernel, "1x4:2x2:300x64", uniform, device);
    auto first = all_results(kernel, "3x4:2x2:300x64", uniform, device);
    for (std::size_t output = 0; output < alone.size(); ++output) {
      first[output].resize(alone[output].size());
    }
    EXPECT_EQ(alone, first);
  });
}

// 40 tiles, on so many blocks that each has one: more pieces than a warp has lanes. Their maxima are so
// far below 0 that nothing is left of them beside a 0.
TEST(Decode, AddsUpManyPiecesOfLowScores) {
  const auto opposite = [](std::uint64_t bits, const Array& array) {
    const double x = uniform(bits);  // from -1 to 1
    return array.name == "q" ? 6 + 2 * x : array.name == "k" ? -6 + 2 * x : x;
  };
  set_host_sm_count(64);
  std::map<DType, std::vector<std::vector<double>>> of_first;
  for_each_kernel("attention", {"decode"}, [&](const Kernel& kernel, Device& device) {
    const auto all = all_results(kernel, "1x4:1x1:2560x64", {"opposite", opposite}, device);
    const auto& expected = of_first.try_emplace(kernel.dtype, all).first->second;
    for (std::size_t output = 0; output < all.size(); ++output) {
      for (std::size_t i = 0; i < all[output].size(); ++i) {
        ASSERT_NEAR(all[output][i], expected[output][i], 0.01) << "element " << i;
      }
    }
  });
  set_host_sm_count(2);
}

// Blocks that begin in another order come last in another order: v56 adds up in that of the keys.
TEST(Decode, HasTheSameBitsInEveryRun) {
  for_each_kernel("attention", {"decode"}, [](const Kernel& kernel, Device& device) {
    const InputSet uniform{"uniform", uniform_value};
    constexpr const char* kThreePieces = "1x4:1x2:700x64";
    const auto first = all_results(kernel, kThreePieces, uniform, device);
    for (unsigned order = 1; order < 4; ++order) {
      device.set_lane_order(order);
      EXPECT_EQ(all_results(kernel, kThreePieces, uniform, device), first);
    }
    device.set_lane_order(0);
  });
}

// The host executor begins blocks in another order each time, a GPU as it likes.
TEST(AttentionGradient, HasTheSameBitsInEveryRunWhereTheOrderIsKept) {
  for_each_kernel("attention", {"backward", "causal_backward"},
                  [](const Kernel& kernel, Device& device) {
                    if (*kernel.version.unordered_sum != 0) return;
                    const InputSet uniform{"uniform", uniform_value};
                    constexpr const char* kThreeTilesOfKeys = "1x1x70:300x64";
                    const auto first = all_results(kernel, kThreeTilesOfKeys, uniform, device);
                    for (unsigned order = 1; order < 3; ++order) {
                      device.set_lane_order(order);
                      EXPECT_EQ(all_results(kernel, kThreeTilesOfKeys, uniform, device), first);
                    }
                    device.set_lane_order(0);
                  });
}

// A tile behind a sequence's last query has the next one's rows.
TEST(AttentionGradient, IsNoneOfOtherSequencesNaNs) {
  const auto rarely_nan = [](std::uint64_t bits, const Array& array) {
    const bool is_nan = (array.name == "q" || array.name == "d_o") && bits % 8192 == 0;
    return is_nan ? std::numeric_limits<double>::quiet_NaN() : uniform(bits);
  };
  constexpr const char* kSequences = "6x1x1..70x64";
  const attention_layout::Layout at(attention_contract::Common<attention>::problem(kSequences));
  const auto is_nan = [](double x) { return std::isnan(x); };
  for_each_kernel(
      "attention", {"backward", "causal_backward"}, [&](const Kernel& kernel, Device& device) {
        if (!supports(kernel, family_of(kernel).problem(kSequences)).ok) return;
        const auto all = all_results(kernel, kSequences, {"few NaNs", rarely_nan}, device);
        int clean = 0;
        for (int sequence = 0; sequence < 6; ++sequence) {
          const auto of = [&](const std::vector<double>& values, int row, int rows) {
            return std::span(values).subspan(static_cast<std::size_t>(row * 64),
                                             static_cast<std::size_t>(rows * 64));
          };
          const int row = at.query_start(sequence), rows = at.queries(sequence);
          bool is_clean = true;
          for (int i = row * 64; i < (row + rows) * 64; ++i) {
            const auto number = static_cast<std::uint64_t>(i);
            for (const auto& [place, name] : {std::pair(0, "q"), std::pair(5, "d_o")}) {
              const double x =
                  rarely_nan(random_bits(kSeed, static_cast<std::uint64_t>(place), number),
                             input<float>(name, 0));
              is_clean &= !std::isnan(x);
            }
          }
          if (!is_clean) continue;
          ++clean;
          EXPECT_TRUE(std::ranges::none_of(of(all[0], row, rows), is_nan)) << sequence;
          for (const std::size_t output : {1, 2}) {
            const auto keys = of(all[output], at.key_start(sequence), at.keys(sequence));
            EXPECT_TRUE(std::ranges::none_of(keys, is_nan)) << sequence;
          }
        }
        EXPECT_GE(clean, 1);
        EXPECT_LT(clean, 6);
      });
}

// Weights 1 and biases 0.
double plain_value(std::uint64_t bits, const Array& array) {
  return array.name == "x" ? uniform(bits) : array.name == "weight" ? 1 : 0;
}

TEST(LayerNorm, RowsHaveMeanZeroAndVarianceOne) {
  for_each_kernel("layernorm", {""}, [](const Kernel& kernel, Device& device) {
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
  for_each_kernel("rmsnorm", {""}, [](const Kernel& kernel, Device& device) {
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
      x[c] = uniform(random_bits(kSeed, 0, row * kCols + c));
      mean += centred ? x[c] / kCols : 0;
    }
    for (std::size_t c = 0; c < kCols; ++c) {
      const double dx = out[row * kCols + c];
      sum += dx;
      product += dx * (x[c] - mean);
      size += std::abs(dx);
    }
    if (centred) {
      EXPECT_NEAR(sum / size, 0, tolerance);
    }
    // x is rounded to the type, and eps takes its share of 1/3, the variance.
    EXPECT_NEAR(product / size, 0, 2 * tolerance + 1e-5 / 0.3);
  }
}

TEST(LayerNorm, GradientsSumToZeroAndAreOrthogonalToTheRow) {
  for_each_kernel("layernorm", {"backward"}, [](const Kernel& kernel, Device& device) {
    expect_orthogonal(kernel, device, true);
  });
}

TEST(RmsNorm, GradientsAreOrthogonalToTheRow) {
  for_each_kernel("rmsnorm", {"backward"}, [](const Kernel& kernel, Device& device) {
    expect_orthogonal(kernel, device, false);
  });
}

// On four SMs two clusters of two blocks have a row each. In 16 bits the second one begins in the middle of a
// sector, and has as many vectors as the cluster's first block holds.
TEST(RowGradients, AreRightWhereBlocksAreFullAndSectorsAreNot) {
  set_host_sm_count(4);
  for (const char* family : {"layernorm", "rmsnorm"}) {
    std::map<DType, std::vector<double>> of_first;
    for_each_kernel(family, {"backward"}, "2x16376", [&](const Kernel& kernel, Device& device) {
      const bool is_first = !of_first.contains(kernel.dtype);
      if (!is_first && !label(kernel).starts_with("v34_")) return;
      const auto dx = results(kernel, "2x16376", {"uniform", uniform_value}, device);
      const auto& expected = of_first.try_emplace(kernel.dtype, dx).first->second;
      for (std::size_t i = 0; i < dx.size(); ++i) {
        ASSERT_NEAR(dx[i], expected[i], 0.02 + 0.02 * std::abs(expected[i])) << "element " << i;
      }
    });
  }
  set_host_sm_count(2);
}

// With dy = 1 dbias is the number of rows, and every row's part of dx is 0 where the weights are 1.
TEST(LayerNorm, GradientsOfAConstantAreCounts) {
  for_each_kernel("layernorm", {"backward"}, [](const Kernel& kernel, Device& device) {
    const InputSet ones{"ones", [](std::uint64_t bits, const Array& array) {
                          return array.name == "x" ? uniform(bits) : 1.0;
                        }};
    const auto out = all_results(kernel, kProblem, ones, device);
    ASSERT_EQ(out.size(), 3);
    for (const double dx : out[0]) EXPECT_NEAR(dx, 0, 1e-5);
    for (const double dbias : out[2]) EXPECT_EQ(dbias, kRows);
  });
}

// Elements that are all equal are their own mean, so that the bias is all there is of y. eps alone makes
// the scale of such rows, 316: a mean that is off by one unit in the last place, as it is where the sum is
// multiplied by the rounded inverse of 119 or of 1000, gives 0.02 more.
TEST(LayerNorm, EqualElementsBecomeTheBias) {
  for (const char* problem : {"5x119", "5x1000"}) {
    for_each_kernel("layernorm", {"", "add"}, problem, [&](const Kernel& kernel, Device& device) {
      const InputSet equal{"equal", [](std::uint64_t, const Array& array) {
                             return array.name == "x" || array.name == "residual" ? 1000.0 : 1.0;
                           }};
      for (const double y : results(kernel, problem, equal, device)) EXPECT_NEAR(y, 1, 1e-3);
    });
  }
}

// Elements that are all equal are their own mean, and with dy = 1 and weights of 1 nothing is left of
// dx. eps alone makes the scale of such rows, 316: a mean that is off by one unit in the last place, as
// it is where the sum is multiplied by the rounded inverse of 1000, gives 0.1.
TEST(LayerNorm, GradientsOfEqualElementsAreZero) {
  for_each_kernel("layernorm", {"backward"}, [](const Kernel& kernel, Device& device) {
    const InputSet equal{"equal", [](std::uint64_t, const Array& array) {
                           return array.name == "x" ? 1000.0 : 1.0;
                         }};
    for (const double dx : results(kernel, "5x1000", equal, device)) EXPECT_NEAR(dx, 0, 1e-2);
  });
}

// Sixty-fourths below 1, of which every type holds the sums too.
double sixty_fourth(std::uint64_t bits) { return static_cast<double>(bits % 64) / 64; }
double sixty_fourth_value(std::uint64_t bits, const Array&) { return sixty_fourth(bits); }

void expect_exact_sum(const Kernel& kernel, Device& device, int residual) {
  const auto sum =
      all_results(kernel, kProblem, {"sixty-fourths", sixty_fourth_value}, device).at(1);
  for (std::size_t i = 0; i < kRows * kCols; ++i) {
    const double x = sixty_fourth(random_bits(kSeed, 0, i));
    const double more = sixty_fourth(random_bits(kSeed, residual, i));
    EXPECT_EQ(sum[i], x + more);
  }
}

TEST(LayerNorm, AddsTheResidualToTheLastBit) {
  for_each_kernel("layernorm", {"add"}, [](const Kernel& kernel, Device& device) {
    expect_exact_sum(kernel, device, 3);
  });
}

TEST(RmsNorm, AddsTheResidualToTheLastBit) {
  for_each_kernel("rmsnorm", {"add"}, [](const Kernel& kernel, Device& device) {
    expect_exact_sum(kernel, device, 2);
  });
}

constexpr std::size_t kSummands = 66'001;
constexpr const char* kSum = "66001";
constexpr double kLarge = 0x1p20;

std::uint64_t bits_of_summand(std::size_t i) { return random_bits(kSeed, 0, i); }

// Small numbers, hidden in large ones of both signs, of which the first summand leaves nothing.
double cancelling(std::uint64_t bits) {
  static const double large_others = [] {
    double sum = 0;
    for (std::size_t i = 1; i < kSummands; ++i) {
      sum += bits_of_summand(i) % 2 == 0 ? kLarge : -kLarge;
    }
    return sum;
  }();
  if (bits == bits_of_summand(0)) return -large_others;
  return (bits % 2 == 0 ? kLarge : -kLarge) + uniform(bits);
}
double cancelling_value(std::uint64_t bits, const Array&) { return cancelling(bits); }

TEST(Sum, LosesNothingWhereItIsCompensated) {
  long double exact = 0, magnitudes = 0;
  for (std::size_t i = 0; i < kSummands; ++i) {
    const auto x = static_cast<float>(cancelling(bits_of_summand(i)));
    exact += x;
    magnitudes += std::abs(x);
  }
  // A number goes through fewer than 32 additions, and so does what they round off.
  const double u = unit_roundoff(DType::f32);
  const auto limit = static_cast<double>(u * std::abs(exact) + 32 * u * 32 * u * magnitudes);
  for_each_kernel("reduction", {"sum"}, [&](const Kernel& kernel, Device& device) {
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
  for_each_kernel("reduction", {"sum"}, [](const Kernel& kernel, Device& device) {
    if (is_integer(kernel.dtype)) return;
    const InputSet infinite{"infinite", [](std::uint64_t bits, const Array&) {
                              return bits % 64 == 0 ? double{INFINITY} : 1.0;
                            }};
    EXPECT_EQ(results(kernel, kSum, infinite, device).front(), INFINITY);
  });
}

// --- Wrong elements -------------------------------------------------------------------------------

TEST(Comparison, FindsTheWrongElementOfEveryType) {
  constexpr std::size_t kN = 1001;
  for (const auto& device : devices()) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(device->info().name + ", " + to_string(dtype));
      std::vector<unsigned char> bytes(bytes_of(dtype, kN));
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<unsigned char>(random_bits(kSeed, 0, i));
      }
      std::vector<double> answers(kN);
      with_type(dtype, [&]<class T>(std::type_identity<T>) {
        const auto* const array = reinterpret_cast<const T*>(bytes.data());
        for (std::size_t i = 0; i < kN; ++i) answers[i] = value_at(array, i);
      });
      const Buffer actual(*device, bytes.size()), expected(*device, kN * sizeof(double));
      device->upload(actual.data(), bytes.data(), bytes.size());
      const auto compared = [&] {
        device->upload(expected.data(), answers.data(), expected.bytes());
        return device->compare(dtype, actual.data(), static_cast<const double*>(expected.data()),
                               nullptr, kN, {});
      };
      EXPECT_EQ(compared().wrong, 0);
      for (const std::size_t i : {0, 501, 1000}) {
        const double right = answers[i];
        answers[i] = std::isnan(right) ? 0 : NAN;
        const Comparison found = compared();
        EXPECT_EQ(found.wrong, 1);
        EXPECT_EQ(found.worst, i);
        answers[i] = right;
      }
    }
  }
}

// --- Well-known mistakes: kernels in plain C++ on the host device's memory ----------------------

template <class Args, class F>
void launch(const Call& call, cudaStream_t) {
  F{}(*static_cast<const Args*>(call.args));
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
    const Family& family = family_of(kernel);
    const auto workload = family.open(family.problem(problem), kernel.dtype, set, kSeed, host);
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
  auto scaled_first = softmax_by([](const float* x, float* y, int n) {
    constexpr float kLog2E = 1.4426950408889634f;
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, kLog2E * x[c]);
    for (int c = 0; c < n; ++c) sum += std::exp2(kLog2E * x[c] - max);
    for (int c = 0; c < n; ++c) y[c] = std::exp2(kLog2E * x[c] - max) / sum;
  });
  auto without_nan = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, x[c]);
    for (int c = 0; c < n; ++c) sum += std::isnan(x[c]) ? 0 : std::exp(x[c] - max);
    for (int c = 0; c < n; ++c) y[c] = std::isnan(x[c]) ? 0 : std::exp(x[c] - max) / sum;
  });
  for (const char* inputs : {"uniform", "large", "masked", "climbing", "constant", "special"}) {
    EXPECT_EQ(verdict_on<softmax>(right, "20x999", inputs), Verdict::passed) << inputs;
  }
  EXPECT_EQ(verdict_on<softmax>(without_maximum, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<softmax>(without_maximum, "20x999", "large"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(without_last_summand, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(online_without_rescaling, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(online_from_infinity, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<softmax>(online_from_infinity, "20x999", "masked"), Verdict::incorrect)
      << "a row that starts with -inf";
  EXPECT_EQ(verdict_on<softmax>(scaled_first, "20x999", "large"), Verdict::passed);
  EXPECT_EQ(verdict_on<softmax>(scaled_first, "20x999", "special"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax>(without_nan, "20x999", "masked"), Verdict::passed);
  EXPECT_EQ(verdict_on<softmax>(without_nan, "20x999", "special"), Verdict::incorrect);
}

TEST(LogSoftmaxCheck, AcceptsRightAndRejectsKnownMistakes) {
  auto right = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, x[c]);
    for (int c = 0; c < n; ++c) sum += std::exp(x[c] - max);
    for (int c = 0; c < n; ++c) y[c] = x[c] - max - std::log(sum);
  });
  auto log_of_softmax = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, x[c]);
    for (int c = 0; c < n; ++c) sum += std::exp(x[c] - max);
    for (int c = 0; c < n; ++c) y[c] = std::log(std::exp(x[c] - max) / sum);
  });
  auto maximum_added_first = softmax_by([](const float* x, float* y, int n) {
    float max = -INFINITY, sum = 0;
    for (int c = 0; c < n; ++c) max = std::fmax(max, x[c]);
    for (int c = 0; c < n; ++c) sum += std::exp(x[c] - max);
    const float log_of_all = max + std::log(sum);
    for (int c = 0; c < n; ++c) y[c] = x[c] - log_of_all;
  });
  for (const char* inputs : {"uniform", "large", "masked", "climbing", "constant"}) {
    EXPECT_EQ(verdict_on<log_softmax>(right, "20x999", inputs), Verdict::passed) << inputs;
  }
  EXPECT_EQ(verdict_on<log_softmax>(log_of_softmax, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<log_softmax>(log_of_softmax, "20x999", "large"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<log_softmax>(maximum_added_first, "20x999", "uniform"), Verdict::passed);
  EXPECT_EQ(verdict_on<log_softmax>(maximum_added_first, "20x999", "climbing"), Verdict::incorrect);
}

/// A kernel from a function of an element's y, its dy, and the row's sums of dy and of y dy.
template <class F>
auto gradient_by(F) {
  return [](const softmax_gradient::Args<float>& a) {
    for (int r = 0; r < a.rows; ++r) {
      const float *const y = a.y + r * a.cols, *const dy = a.dy + r * a.cols;
      float sum = 0, weighted = 0;
      for (int c = 0; c < a.cols; ++c) {
        sum += dy[c];
        weighted += y[c] * dy[c];
      }
      for (int c = 0; c < a.cols; ++c) a.dx[r * a.cols + c] = F{}(y[c], dy[c], sum, weighted);
    }
  };
}

TEST(SoftmaxGradientCheck, AcceptsRightAndRejectsKnownMistakes) {
  auto right =
      gradient_by([](float y, float dy, float, float weighted) { return y * (dy - weighted); });
  auto without_sum = gradient_by([](float y, float dy, float, float) { return y * dy; });
  auto plain_sum = gradient_by([](float y, float dy, float sum, float) { return y * (dy - sum); });
  auto log_right =
      gradient_by([](float y, float dy, float sum, float) { return dy - std::exp(y) * sum; });
  auto log_of_y = gradient_by([](float y, float dy, float sum, float) { return dy - y * sum; });
  auto log_weighted = gradient_by(
      [](float y, float dy, float, float weighted) { return dy - std::exp(y) * weighted; });
  for (const char* inputs : {"uniform", "sparse", "constant", "denormal"}) {
    EXPECT_EQ(verdict_on<softmax_backward>(right, "20x999", inputs), Verdict::passed) << inputs;
  }
  for (const char* inputs : {"uniform", "low", "masked", "constant"}) {
    EXPECT_EQ(verdict_on<log_softmax_backward>(log_right, "20x999", inputs), Verdict::passed)
        << inputs;
  }
  EXPECT_EQ(verdict_on<softmax_backward>(without_sum, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<softmax_backward>(plain_sum, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<log_softmax_backward>(log_of_y, "20x999", "uniform"), Verdict::incorrect);
  EXPECT_EQ(verdict_on<log_softmax_backward>(log_weighted, "20x999", "uniform"),
            Verdict::incorrect);
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

/// Adds up as tensor cores do: a group of products and the sum so far, each cut off kBits bits
/// below the largest of them.
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

/// gelu(A * B^T + bias) from a function of products and a bias.
template <class T, class F>
auto bias_gelu_by(F) {
  return [](const gemm_tensor::Args<T>& g) {
    for (int row = 0; row < g.m; ++row) {
      for (int col = 0; col < g.n; ++col) {
        const auto product = [&](int depth) {
          double sum = 0;
          for (int k = 0; k < depth; ++k)
            sum += widen(g.a[row * g.k + k]) * widen(g.b[col * g.k + k]);
          return sum;
        };
        g.c[row * g.n + col] = T(static_cast<float>(F{}(product, g, col)));
      }
    }
  };
}

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

template <class T>
void expect_the_check_tells_epilogues_apart() {
  const auto right = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    return gelu_tanh(product(g.k) + widen(g.bias[col]));
  });
  const auto unfused = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    return gelu_tanh(widen(T(static_cast<float>(product(g.k)))) + widen(g.bias[col]));
  });
  const auto with_tanh_of_11_bits = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    const double x = product(g.k) + widen(g.bias[col]);
    return 0.5 * x + (gelu_tanh(x) - 0.5 * x) * (1 - 0x1p-11);
  });
  const auto without_bias =
      bias_gelu_by<T>([](auto product, const auto& g, int) { return gelu_tanh(product(g.k)); });
  const auto with_the_next_bias = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    return gelu_tanh(product(g.k) + widen(g.bias[(col + 1) % g.n]));
  });
  const auto bias_behind_gelu = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    return gelu_tanh(product(g.k)) + widen(g.bias[col]);
  });
  const auto relu = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    return std::max(0.0, product(g.k) + widen(g.bias[col]));
  });
  const auto with_sigmoid = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    const double x = product(g.k) + widen(g.bias[col]);
    return x / (1 + std::exp(-1.702 * x));
  });
  const auto without_last_products = bias_gelu_by<T>([](auto product, const auto& g, int col) {
    return gelu_tanh(product(g.k - 16) + widen(g.bias[col]));
  });
  const auto verdict = [](auto kernel, const char* inputs, const char* problem = "64x64x1024") {
    return verdict_on<gemm_tensor_nt_bias_gelu, T>(kernel, problem, inputs);
  };
  for (const char* inputs : {"uniform", "small"}) {
    SCOPED_TRACE(inputs);
    EXPECT_EQ(verdict(right, inputs), Verdict::passed);
    EXPECT_EQ(verdict(unfused, inputs), Verdict::passed);
    EXPECT_EQ(verdict(with_tanh_of_11_bits, inputs), Verdict::passed);
    EXPECT_EQ(verdict(without_bias, inputs), Verdict::incorrect);
    EXPECT_EQ(verdict(with_the_next_bias, inputs), Verdict::incorrect);
    EXPECT_EQ(verdict(bias_behind_gelu, inputs), Verdict::incorrect);
    EXPECT_EQ(verdict(relu, inputs), Verdict::incorrect);
    EXPECT_EQ(verdict(without_last_products, inputs), Verdict::incorrect);
  }
  // Where the product is small, gelu's own error is the larger part.
  EXPECT_EQ(verdict(with_tanh_of_11_bits, "small", "64x64x16"), Verdict::passed);
  EXPECT_EQ(verdict(with_sigmoid, "small"), Verdict::incorrect);
}

TEST(GemmTensorCheck, AcceptsFusedAndUnfusedEpiloguesAndRejectsKnownMistakes) {
  expect_the_check_tells_epilogues_apart<half>();
  expect_the_check_tells_epilogues_apart<bfloat16>();
}

}  // namespace
}  // namespace ladder
