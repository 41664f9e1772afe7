// Every registered kernel, on every test problem and every set of inputs, against its reference.
// Built once for the host executor, where each case runs under two lane orders, and once for the
// GPU. There, kernels whose copies and products no sanitizer watches (vNN_name.sm90a.cu) run 100
// times more, and must give the same bits each time.
#include "harness/family.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <set>

namespace ladder {
namespace {

/// A fresh seed per run, or LADDER_SEED to repeat one.
std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* fixed = std::getenv("LADDER_SEED");
    const std::uint64_t made = fixed ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::cout << "LADDER_SEED=" << made << "\n";
    return made;
  }();
  return value;
}

/// Inputs that a version is not asked for on a GPU.
struct Exception {
  std::string_view version, inputs;
};
constexpr Exception kExceptions[] = {
    // Of a row of nothing but -inf it makes zeros, others make NaNs.
    {"softmax/f32/v00_cudnn", "mostly masked"},
    // fp32 atomics on global memory take subnormal numbers for zero (PTX ISA, red).
    {"reduction/sum/f32/v12_atomic_add", "denormal"},
    {"reduction/sum/f16/v12_atomic_add", "denormal"},
    {"reduction/sum/bf16/v12_atomic_add", "denormal"},
};

class KernelTest : public testing::Test {
 public:
  KernelTest(const Kernel& kernel, Device& device) : kernel_(kernel), device_(device) {}

  void TestBody() override {
    if (const Support support = architecture_supports(kernel_.file, device_.info()); !support.ok) {
      GTEST_SKIP() << support.reason;
    }
    const Family& family = family_of(kernel_);
    int checked = 0;
    for (const std::string& problem : family.test_problems()) {
      if (!family.supports(kernel_, problem).ok) continue;
      bool first = true;
      for (const InputSet& set : family.input_sets()) {
        if (is_excepted(set)) continue;
        const auto workload = family.open(problem, kernel_.dtype, set, seed(), device_);
        for (unsigned order : orders(first)) {
          device_.set_lane_order(order);
          const CheckResult result = check(kernel_, *workload, device_);
          EXPECT_EQ(result.verdict, Verdict::passed)
              << to_string(result.verdict) << ": " << problem << ", " << set.name
              << " inputs, lane order " << order << ", LADDER_SEED=" << seed() << ": "
              << result.reason;
          ++checked;
        }
        first = false;
      }
    }
    EXPECT_GT(checked, 0) << "supports no test problem";
  }

 private:
  /// Every problem runs under both orders; inputs beyond the first set are there for their values.
  std::vector<unsigned> orders(bool first_inputs) const {
    if (device_.backend() == Backend::cuda) return {0};
    const unsigned random = static_cast<unsigned>(seed()) | 1;
    return first_inputs ? std::vector{0U, random} : std::vector{random};
  }

  bool is_excepted(const InputSet& set) const {
    return device_.backend() == Backend::cuda &&
           std::ranges::any_of(kExceptions, [&](const Exception& e) {
             return full_name(kernel_) == e.version && set.name == e.inputs;
           });
  }

  Kernel kernel_;
  Device& device_;
};

/// The first problem of ./bench, many times.
class RepeatTest : public testing::Test {
 public:
  RepeatTest(const Kernel& kernel, Device& device) : kernel_(kernel), device_(device) {}

  void TestBody() override {
    if (const Support support = architecture_supports(kernel_.file, device_.info()); !support.ok) {
      GTEST_SKIP() << support.reason;
    }
    const Family& family = family_of(kernel_);
    const std::vector<std::string> problems = family.bench_problems(Backend::cuda);
    const auto problem = std::find_if(problems.begin(), problems.end(), [&](const auto& text) {
      return family.supports(kernel_, text).ok;
    });
    ASSERT_NE(problem, problems.end()) << "supports no problem of ./bench";
    const auto workload =
        family.open(*problem, kernel_.dtype, family.input_sets().front(), seed(), device_);
    workload->prepare(kernel_);
    std::optional<std::uint64_t> first;
    for (int run = 0; run < 100; ++run) {
      workload->output().poison();
      device_.run(kernel_, workload->args());
      const std::uint64_t bits =
          device_.checksum(workload->output().data(), workload->output().bytes());
      ASSERT_EQ(bits, first.value_or(bits)) << "run " << run << " of " << *problem;
      first = bits;
    }
  }

 private:
  Kernel kernel_;
  Device& device_;
};

/// Stands in for all kernels of a family where there is no GPU.
class NoGpu : public testing::Test {
 public:
  explicit NoGpu(std::string reason) : reason_(std::move(reason)) {}
  void TestBody() override {
    if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << "LADDER_REQUIRE_GPU is set, but: " << reason_;
    GTEST_SKIP() << "no kernel ran on a GPU: " << reason_;
  }

 private:
  std::string reason_;
};

void register_tests(std::unique_ptr<Device>& device) {
#if defined(LADDER_TEST_GPU)
  try {
    device = open_cuda_device(0);
  } catch (const std::exception& error) {
    std::set<std::string_view> names;
    for (const Family& family : families()) names.insert(family.name);
    for (std::string_view name : names) {
      testing::RegisterTest(
          (std::string(name) + "/all").c_str(), "gpu", nullptr, nullptr, __FILE__, __LINE__,
          [why = std::string(error.what())]() -> testing::Test* { return new NoGpu(why); });
    }
    return;
  }
  const char* backend = "gpu";
#else
  device = open_host_device();
  const char* backend = "host";
#endif
  for (const Kernel& kernel : device->kernels()) {
    testing::RegisterTest(full_name(kernel).c_str(), backend, nullptr, nullptr, kernel.file, 1,
                          [&]() -> testing::Test* { return new KernelTest(kernel, *device); });
    if (std::string_view(kernel.file).ends_with(".sm90a.cu") &&
        device->backend() == Backend::cuda) {
      testing::RegisterTest(full_name(kernel).c_str(), "gpu_repeats", nullptr, nullptr, kernel.file,
                            1, [&]() -> testing::Test* { return new RepeatTest(kernel, *device); });
    }
  }
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::unique_ptr<ladder::Device> device;
  ladder::register_tests(device);
  return RUN_ALL_TESTS();
}
