// Elementwise kernels on more than 2^31 elements, whose numbers no longer fit 32 bits; on a GPU with
// enough memory, for one input.
#include "harness/family.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ladder {
namespace {

constexpr const char* kProblem = "2147483661";  // 2^31 + 13
constexpr double kWhole = 0.95;                 // of the free memory

class HugeTest : public testing::TestWithParam<std::tuple<std::string_view, DType>> {
 protected:
  static void SetUpTestSuite() {
    try {
      device_ = open_cuda_device(0);
    } catch (const std::exception& error) {
      why_not_ = error.what();
    }
  }
  static void TearDownTestSuite() { device_.reset(); }
  void SetUp() override {
    if (device_) return;
    if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << "LADDER_REQUIRE_GPU is set: " << why_not_;
    GTEST_SKIP() << "nothing ran on a GPU: " << why_not_;
  }

  static inline std::unique_ptr<Device> device_;
  static inline std::string why_not_;
};

TEST_P(HugeTest, EveryVersionReachesTheLastElement) {
  const auto [op, dtype] = GetParam();
  std::vector<const Kernel*> kernels;
  for (const Kernel& kernel : device_->kernels()) {
    const bool ours = kernel.family == std::string_view("elementwise") && op == kernel.op;
    if (ours && kernel.dtype == dtype &&
        supports(kernel, family_of(kernel).problem(kProblem), device_->info()).ok) {
      kernels.push_back(&kernel);
    }
  }
  ASSERT_FALSE(kernels.empty());
  const Family& family = family_of(*kernels.front());
  const Problem problem = family.problem(kProblem);
  if (family.memory(problem, dtype) > kWhole * static_cast<double>(device_->free_memory())) {
    GTEST_SKIP() << "nothing ran on a GPU: too little of its memory is free";
  }
  const auto workload = family.open(problem, dtype, family.input_sets().front(), 1, *device_);
  for (const Kernel* kernel : kernels) {
    const CheckResult result = check(*kernel, *workload, *device_);
    EXPECT_EQ(result.verdict, Verdict::passed) << full_name(*kernel) << ": " << result.reason;
  }
}

std::string name(const testing::TestParamInfo<HugeTest::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + to_string(std::get<1>(info.param));
}
// Of two bytes, where every rung from v06 on is, and of four, where the others are.
INSTANTIATE_TEST_SUITE_P(Elementwise, HugeTest,
                         testing::Values(std::tuple{"gelu", DType::bf16},
                                         std::tuple{"relu", DType::f32}),
                         name);

}  // namespace
}  // namespace ladder
