// The timer against CUPTI's record of the very same launches. On a GPU only.
#include "cupti_kernels.hpp"
#include "harness/family.hpp"
#include "harness/statistics.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace ladder {
namespace {

std::vector<double> kernel_us;  // durations that CUPTI reported, in the order of the launches

/// Not of what fills the L2 before a launch.
void note_time(const KernelRecord& kernel) {
  if (std::string_view(kernel.name).find("read_kernel") != std::string_view::npos) return;
  kernel_us.push_back(static_cast<double>(kernel.end - kernel.start) / 1e3);
}

const Kernel& find(const Device& device, std::string_view name) {
  const auto& kernels = device.kernels();
  return *std::find_if(kernels.begin(), kernels.end(),
                       [&](const Kernel& k) { return full_name(k) == name; });
}

// The time between two events is the kernel's plus the cost of starting and ending a launch, which
// is shown here (the difference at the smallest problem) and must not depend on the kernel.
TEST(Timer, AgreesWithCupti) {
  std::unique_ptr<Device> device;
  try {
    device = open_cuda_device(0);
  } catch (const std::exception& error) {
    if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << error.what();
    GTEST_SKIP() << "nothing ran on a GPU: " << error.what();
  }
  ASSERT_TRUE(see_kernels<note_time>());

  struct Case {
    const char *kernel, *problem;
  };
  double launch_cost = 0;
  fmt::print("{:<32}{:<18}{:>12}{:>12}{:>12}\n", "kernel", "problem", "events us", "traced",
             "CUPTI us");
  for (const Case& c : {Case{"elementwise/relu/f32/v03_vec128", "1024"},
                        Case{"elementwise/relu/f32/v03_vec128", "4194304"},
                        Case{"elementwise/relu/f32/v03_vec128", "16777216"},
                        Case{"elementwise/add/f32/v03_vec128", "67108864"},
                        Case{"gemm/f32/v05_tile2d", "512x512x512"},
                        Case{"gemm/f32/v05_tile2d", "2048x2048x2048"}}) {
    const Kernel& kernel = find(*device, c.kernel);
    const Family& family = family_of(kernel);
    const auto workload = family.open(family.problem(c.problem), kernel.dtype,
                                      family.input_sets().front(), 1, *device);
    const Contestant contestants[] = {{&kernel, workload->prepare(kernel).call}};
    const Sampling sampling{.min_samples = 100};
    device->measure(contestants, Cache::cold, sampling);  // warms up
    const double alone = median(device->measure(contestants, Cache::cold, sampling)[0].us);

    ASSERT_EQ(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
    const auto samples = device->measure(contestants, Cache::cold, sampling);
    ASSERT_EQ(cuptiActivityFlushAll(1), CUPTI_SUCCESS);
    ASSERT_EQ(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);

    constexpr std::size_t kUntimed = 2;
    const std::size_t launches =
        (kernel_us.size() - kUntimed) / samples[0].us.size();  // of a sample
    EXPECT_TRUE(launches >= 1 && launches <= 4) << launches;
    ASSERT_EQ(kernel_us.size(), launches * samples[0].us.size() + kUntimed);
    std::vector<double> cupti_us;
    for (std::size_t i = kUntimed; i < kernel_us.size(); i += launches) {
      cupti_us.push_back(mean(std::span(kernel_us).subspan(i, launches)));
    }
    const double by_events = median(samples[0].us), by_cupti = median(cupti_us);
    fmt::print("{:<32}{:<18}{:>12.2f}{:>12.2f}{:>12.2f}\n", c.kernel, c.problem, alone, by_events,
               by_cupti);
    const double difference = alone - by_cupti;
    if (launch_cost == 0) launch_cost = difference;
    EXPECT_GT(difference, 0) << c.kernel << " " << c.problem;
    EXPECT_LT(difference, launch_cost + std::max(0.02 * by_cupti, 1.0))
        << c.kernel << " " << c.problem;
    kernel_us.clear();
  }
  EXPECT_LT(launch_cost, 5) << "microseconds";
}

}  // namespace
}  // namespace ladder
