// Kernels that are right on easy inputs only, or in one order of the threads, get no time; and what
// the hard inputs are tried on where a problem is large.
#include "measure/suite.hpp"

#include "forwarding_device.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/gemm_tensor/gemm_tensor.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/rmsnorm/rmsnorm.hpp"
#include "kernels/softmax/softmax.hpp"
#include "relu_kernel.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace ladder {
namespace {

using testing::StartsWith;

/// The host executor, or what says it is a GPU; the order in which its threads would run.
struct Planted final : ForwardingDevice {
  explicit Planted(Backend on) : at(on) {
    for (const Kernel& k : host->kernels()) {
      if (k.op == std::string_view("dram")) streams.push_back(k);  // a GPU's roofs
    }
  }
  Backend backend() const override { return at; }
  const std::vector<Kernel>& kernels() const override { return streams; }
  void set_lane_order(unsigned order) override { lane_order = order; }
  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                               const Sampling& sampling) override {
    EXPECT_EQ(lane_order, 0) << "in which kernels are timed";
    return ForwardingDevice::measure(contestants, cache, sampling);
  }

  Backend at;
  std::vector<Kernel> streams;
  static inline unsigned lane_order = 0;
};

/// The rows of kernels, all of one family and operation. The first, or `right` of them, get a time.
template <class Contract>
std::vector<Row> rows_of(
    const char* problem, std::initializer_list<void (*)(const Call&, cudaStream_t)> launches,
    Backend backend = Backend::host, int right = 1, const char* file = "v01_test.cu",
    DType dtype = DType::f32,
    Support (*supports)(const void*) = [](const void*) { return supported(); }) {
  static std::vector<Kernel> kernels;  // which rows point to
  kernels.clear();
  for (const auto& launch : launches) {
    kernels.push_back(
        {Contract::family, Contract::op, dtype, {"test"}, file, backend, launch, supports});
  }
  Planted device(backend);
  const Family& family = family_of(kernels.front());
  Group group{&family, dtype, family.problem(problem), Cache::cold, {}, {}};
  for (const Kernel& kernel : kernels) group.kernels.push_back(&kernel);
  Roofs roofs(device, 1);
  const std::vector<Row> rows = measure(group, device, 1, roofs);
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(row.check.verdict, i < right ? Verdict::passed : Verdict::incorrect)
        << i << ": " << row.check.reason;
    EXPECT_EQ(row.timed(), i < right) << i;
  }
  return rows;
}

template <bool subtracts_maximum>
void softmax_of_rows(const Call& call, cudaStream_t) {
  const auto& a = *static_cast<const softmax::Args<float>*>(call.args);
  for (std::size_t r = 0, n = static_cast<std::size_t>(a.cols);
       r * n < n * static_cast<std::size_t>(a.rows); ++r) {
    const float* x = a.x + r * n;
    float most = subtracts_maximum ? x[0] : 0, sum = 0;
    for (std::size_t c = 0; subtracts_maximum && c < n; ++c) most = std::max(most, x[c]);
    for (std::size_t c = 0; c < n; ++c) sum += std::exp(x[c] - most);
    for (std::size_t c = 0; c < n; ++c) a.y[r * n + c] = std::exp(x[c] - most) / sum;
  }
}

enum class Variance { two_passes, one_pass, without_epsilon };

template <Variance how>
void layernorm_of_rows(const Call& call, cudaStream_t) {
  const auto& a = *static_cast<const layernorm::Args<float>*>(call.args);
  for (int r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.cols;
    float mean = 0, variance = 0;
    const auto n = static_cast<float>(a.cols);
    for (int c = 0; c < a.cols; ++c) mean += x[c] / n;
    for (int c = 0; c < a.cols; ++c) {
      const float d = how == Variance::one_pass ? x[c] : x[c] - mean;
      variance += d * d / n;
    }
    if (how == Variance::one_pass) variance -= mean * mean;
    if (how != Variance::without_epsilon) variance += layernorm::kEpsilon;
    for (int c = 0; c < a.cols; ++c) {
      a.y[r * a.cols + c] = (x[c] - mean) / std::sqrt(variance) * a.weight[c] + a.bias[c];
    }
  }
}

template <bool has_epsilon>
void rmsnorm_of_rows(const Call& call, cudaStream_t) {
  const auto& a = *static_cast<const rmsnorm::Args<float>*>(call.args);
  for (int r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.cols;
    float squares = 0;
    for (int c = 0; c < a.cols; ++c) squares += x[c] * x[c] / static_cast<float>(a.cols);
    const float root = std::sqrt(squares + (has_epsilon ? rmsnorm::kEpsilon : 0));
    for (int c = 0; c < a.cols; ++c) a.y[r * a.cols + c] = x[c] / root * a.weight[c];
  }
}

TEST(HardInputs, SoftmaxWithoutTheMaximumGetsNoTime) {
  for (const Backend backend : {Backend::host, Backend::cuda}) {
    const auto rows =
        rows_of<softmax>("4x100", {softmax_of_rows<true>, softmax_of_rows<false>}, backend);
    EXPECT_THAT(
        rows[1].check.reason,
        StartsWith(backend == Backend::host ? "inputs: large; lane order 1; " : "inputs: large; "));
  }
}

TEST(HardInputs, AVarianceOfOnePassOrWithoutEpsilonGetsNoTime) {
  const auto layernorms = rows_of<layernorm>(
      "4x1000", {layernorm_of_rows<Variance::two_passes>, layernorm_of_rows<Variance::one_pass>,
                 layernorm_of_rows<Variance::without_epsilon>});
  EXPECT_THAT(layernorms[1].check.reason, StartsWith("inputs: offset; lane order 1; "));
  EXPECT_THAT(layernorms[2].check.reason, StartsWith("inputs: constant; lane order 1; "));
  rows_of<rmsnorm>("4x1000", {rmsnorm_of_rows<true>, rmsnorm_of_rows<false>});
}

TEST(HardInputs, AResultThatDependsOnTheOrderOfThreadsGetsNoTime) {
  static constexpr auto relu = [](const void* args, float offset) {
    const auto& r = *static_cast<const Relu*>(args);
    for (std::int64_t i = 0; i < r.n; ++i) r.y[i] = std::max(r.x[0][i], 0.0f) + offset;
  };
  const auto rows = rows_of<elementwise::relu>(
      "100",
      {[](const Call& call, cudaStream_t) { relu(call.args, 0); },
       [](const Call& call, cudaStream_t) { relu(call.args, Planted::lane_order == 0 ? 0 : 1); },
       [](const Call& call, cudaStream_t) { relu(call.args, Planted::lane_order == 0 ? 1 : 0); }});
  EXPECT_THAT(rows[1].check.reason,
              StartsWith("inputs: uniform; lane order 1; 100 of 100 elements wrong"));
  EXPECT_THAT(rows[2].check.reason, StartsWith("100 of 100 elements wrong"))
      << "on the first inputs in the usual order: nothing to add";
}

/// C = (1 + error) A B.
template <int error>
void product(const Call& call, cudaStream_t) {
  const auto& g = *static_cast<const gemm_tensor_nn::Args<float>*>(call.args);
  for (int i = 0; i < g.m; ++i) {
    for (int j = 0; j < g.n; ++j) {
      float sum = 0;
      for (int k = 0; k < g.k; ++k) sum += g.a[i * g.k + k] * g.b[k * g.n + j];
      g.c[i * g.n + j] = sum * (1 + static_cast<float>(error) * 0x1p-22f);
    }
  }
}

TEST(HardInputs, AreTriedOnASmallerProblemOfALargeOne) {
  for (const Backend backend : {Backend::host, Backend::cuda}) {
    const auto rows = rows_of<gemm_tensor_nn>("16x17x2048", {product<0>, product<1>}, backend);
    EXPECT_THAT(rows[1].check.reason,
                StartsWith(backend == Backend::host ? "inputs: signs at 16x17x1024; lane order 1; "
                                                    : "inputs: signs at 16x17x1024; "));
    EXPECT_EQ(rows[0].problem, "16x17x2048");
  }
}

/// C = A B + quarters / 4.
template <int quarters>
void rounded_product(const Call& call, cudaStream_t) {
  const auto& g = *static_cast<const gemm_tensor_nn::Args<bfloat16>*>(call.args);
  for (int i = 0; i < g.m; ++i) {
    for (int j = 0; j < g.n; ++j) {
      float sum = quarters * 0.25F;
      for (int k = 0; k < g.k; ++k) {
        sum += static_cast<float>(g.a[i * g.k + k]) * static_cast<float>(g.b[k * g.n + j]);
      }
      g.c[i * g.n + j] = static_cast<bfloat16>(sum);
    }
  }
}

TEST(HardInputs, SumsThatATypeRoundsAreRoundedOnce) {
  // Some sums of so many signs are beyond 256, where bf16 has no odd numbers.
  const auto no_smaller = [](const void* problem) {
    const int k = static_cast<const gemm_tensor::Problem*>(problem)->k;
    return k == 1024 ? unsupported("a K of 1024") : supported();
  };
  const auto rows =
      rows_of<gemm_tensor_nn>("16x17x65536", {rounded_product<0>, rounded_product<3>},
                              Backend::host, 1, "v01_test.cu", DType::bf16, no_smaller);
  EXPECT_THAT(rows[1].check.reason, StartsWith("inputs: signs; lane order 1; "));
}

/// The version with this label of a family's operation in f32.
Kernel version(const char* family, const char* op, const char* file) {
  return {family, op, DType::f32, {"test"}, file, Backend::cuda, nullptr, nullptr};
}

TEST(HardInputs, ExceptionsHoldOnAGpuOnly) {
  const Kernel atomics = version("reduction", "sum", "v12_atomic_add.cu");
  const Kernel others = version("reduction", "sum", "v10_last_block.cu");
  std::set<std::string> excepted;
  for (const InputSet& set : family_of(atomics).input_sets()) {
    if (!must_pass(atomics, set, Backend::cuda)) excepted.insert(set.name);
    EXPECT_TRUE(must_pass(atomics, set, Backend::host));
    EXPECT_TRUE(must_pass(others, set, Backend::cuda));
  }
  EXPECT_THAT(excepted, testing::ElementsAre("denormal"));
  // Of a row of nothing but -inf a softmax makes NaNs; cuDNN zeros.
  const auto zeros = [](const Call& call, cudaStream_t) {
    softmax_of_rows<true>(call, nullptr);
    const auto& a = *static_cast<const softmax::Args<float>*>(call.args);
    for (int i = 0; i < a.rows * a.cols; ++i) a.y[i] = std::isnan(a.y[i]) ? 0 : a.y[i];
  };
  rows_of<softmax>("4x100", {zeros}, Backend::cuda, 1, "v00_cudnn.gpu.cu");
  rows_of<softmax>("4x100", {zeros}, Backend::cuda, 0);

  const Kernel maxima = version("reduction", "max", "v12_atomic_add.cu");
  for (const InputSet& set : family_of(maxima).input_sets()) {
    EXPECT_TRUE(must_pass(maxima, set, Backend::cuda));
  }
}

TEST(SmallerProblems, KeepRemaindersAndRowLengths) {
  const auto smaller = [](const char* family, const char* op, const char* problem) {
    const Family& of = family_of(version(family, op, ""));
    return of.smaller(of.problem(problem)).text();
  };
  EXPECT_EQ(smaller("softmax", "", "8192x4096"), "256x4096");
  EXPECT_EQ(smaller("softmax", "causal", "1000x131072"), "8x131072");
  EXPECT_EQ(smaller("layernorm", "backward", "9999x8191"), "111x8191");
  EXPECT_EQ(smaller("rmsnorm", "", "16x1024"), "16x1024");
  EXPECT_EQ(smaller("gemm", "", "1000x3000x777"), "1000x1976x777");
  EXPECT_EQ(smaller("gemm_tensor", "nt", "8192x8192x8192"), "2048x2048x1024");
  EXPECT_EQ(smaller("reduction", "sum", "100000007"), "130823");
  EXPECT_EQ(smaller("matrix_reduction", "row_sum", "1048576x128"), "8192x128");
  EXPECT_EQ(smaller("matrix_reduction", "col_sum", "65536x4097"), "8192x385");
  EXPECT_EQ(smaller("transpose", "", "4095x4097"), "1023x769");
  EXPECT_EQ(smaller("elementwise", "add", "268435456"), "1048576");
  EXPECT_EQ(smaller("elementwise", "bias_gelu_residual", "9973x10007"), "101x10007");
  EXPECT_EQ(smaller("roofs", "dram", "1073741824x1073741824"), "1073741824x1073741824");
}

TEST(SmallerProblems, AreSmallAndOfThePortableVersionsSupport) {
  const auto device = open_host_device();
  for (const Family& family : families()) {
    if (family.input_sets().size() < 2) continue;
    for (const Backend backend : {Backend::cuda, Backend::host}) {
      for (const Problem& problem : family.bench_problems(backend)) {
        const Problem small = family.smaller(problem);
        SCOPED_TRACE(std::string(family.name) + " " + std::string(family.op) + " " +
                     problem.text());
        EXPECT_EQ(family.parse(small.text()), small);
        EXPECT_EQ(family.smaller(small), small);
        EXPECT_LE(family.memory(small, DType::f64), 256e6) << small.text();
        EXPECT_LE(family.memory(small, DType::f32), family.memory(problem, DType::f32));
        EXPECT_GT(family.cost(small, DType::f32).flops, 0);
        for (const Kernel& kernel : device->kernels()) {
          if (kernel.family != family.name || kernel.op != family.op) continue;
          EXPECT_EQ(supports(kernel, small).ok, supports(kernel, problem).ok)
              << full_name(kernel) << " on " << small.text();
        }
      }
    }
  }
}

}  // namespace
}  // namespace ladder
