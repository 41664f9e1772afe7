// Problems that lie on several devices: the family of test/ring, whose arrays, state and scratch memory are
// on each. On the host executor, where any number of devices is; and on as many GPUs as there are.
#include "harness/family.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>

namespace ladder {
namespace {

constexpr const char* kVersions[] = {
    "v01_push",
#if !defined(__SANITIZE_ADDRESS__)  // under which launches run one after another
    "v02_flags",
#endif
};

const Family& ring_family() { return *std::ranges::find(families(), "ring", &Family::name); }
Problem ring_of(int devices, int n) {
  return ring_family().problem(std::to_string(devices) + "x" + std::to_string(n));
}

std::unique_ptr<Workload> open(const Problem& problem, Device& device, std::size_t set = 0) {
  return ring_family().open(problem, DType::f32, ring_family().input_sets()[set], 7, device);
}

class Devices : public testing::Test {
 protected:
  void SetUp() override {
#if defined(LADDER_TEST_GPU)
    try {
      device = open_cuda_device(0);
    } catch (const std::exception& error) {
      if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << error.what();
      GTEST_SKIP() << "nothing ran on a GPU: " << error.what();
    }
#else
    device = open_host_device();
#endif
  }
  const Kernel& kernel(const std::string& version) const {
    return *std::ranges::find(device->kernels(), version, [](const Kernel& k) { return label(k); });
  }

  std::unique_ptr<Device> device;
};

TEST_F(Devices, PassOnWhatTheyHave) {
  for (const Problem& problem : ring_family().test_problems()) {
    for (std::size_t set = 0; set < 2; ++set) {
      if (!supports(kernel("v01_push"), problem, device->info()).ok) continue;
      const auto workload = open(problem, *device, set);
      for (const char* version : kVersions) {
        for (unsigned order = 0; order < 4; ++order) {
          device->set_lane_order(order);
          const CheckResult result = check(kernel(version), *workload, *device);
          device->set_lane_order(0);
          EXPECT_EQ(result.verdict, Verdict::passed)
              << version << " at " << problem.text() << ": " << result.reason;
        }
        workload->refill(8 + set);
        EXPECT_EQ(check(kernel(version), *workload, *device).reason, "") << "of other inputs";
      }
    }
  }
}

TEST_F(Devices, AreTimedTogether) {
  const int devices = std::min(device->info().count, 3);
  const auto workload = open(ring_of(devices, 5000), *device);
  std::vector<Contestant> contestants;
  for (const char* version : kVersions) {
    contestants.push_back({&kernel(version), workload->prepare(kernel(version)).call});
  }
  for (const Samples& samples : device->measure(contestants, Cache::cold, {})) {
    EXPECT_EQ(samples.error, "");
    EXPECT_FALSE(samples.us.empty());
  }
}

#if !defined(LADDER_TEST_GPU)

TEST_F(Devices, HaveEachTheirOwnArraysStateAndWorkspace) {
  const auto workload = open(ring_of(3, 1000), *device);
  for (std::size_t i = 0; i < workload->buffers().size(); ++i) {
    EXPECT_EQ(&workload->buffers()[i].device(), &device->peer(workload->arrays()[i].device));
  }
  const Workload::Prepared prepared = workload->prepare(kernel("v02_flags"));
  ASSERT_EQ(prepared.call.ranks.count, 3);
  std::set<const void*> all;
  for (const Rank& rank : prepared.call.ranks) {
    const auto i = static_cast<std::size_t>(rank.index);
    EXPECT_EQ(&prepared.states[i].device(), &device->peer(rank.index));
    EXPECT_EQ(rank.state, prepared.states[i].data());
    EXPECT_EQ(rank.workspace, prepared.workspaces[i].data());
    EXPECT_EQ(rank.stream, device->peer(rank.index).rank().stream);
    all.insert({&device->peer(rank.index), rank.stream, rank.state, rank.workspace});
  }
  EXPECT_EQ(all.size(), 3 * 3) << "of a fake device the stream is the device";
  EXPECT_EQ(ring_family().memory(ring_of(3, 1000), DType::f32), 1000 * (4 + 4 + 16));
}

TEST_F(Devices, AreAsManyAsTheArraysLieOn) {
  EXPECT_EQ(ring_family().devices(ring_of(1, 10), DType::f32), 1);
  EXPECT_EQ(ring_family().devices(ring_of(5, 10), DType::f32), 5);
  DeviceInfo gpus;
  EXPECT_TRUE(supports(kernel("v01_push"), ring_of(1, 10), gpus).ok);
  const Support two = supports(kernel("v01_push"), ring_of(2, 10), gpus);
  EXPECT_FALSE(two.ok);
  EXPECT_STREQ(two.reason, "needs 2 GPUs, there is 1");
  gpus.count = 2;
  EXPECT_TRUE(supports(kernel("v01_push"), ring_of(2, 10), gpus).ok);
  EXPECT_STREQ(supports(kernel("v01_push"), ring_of(5, 10), gpus).reason,
               "needs 5 GPUs, there are 2");
}

#if !defined(__SANITIZE_ADDRESS__)  // whose errors end the process
TEST_F(Devices, MistakesBetweenThemAreFound) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"v90_stays", "y0: 1000 of 1000 elements wrong"},
      {"v91_others_result", "y0: 1000 of 1000 elements wrong"},
      {"v92_leaves_one_out", "y2: 1000 of 1000 elements wrong"},
      {"v93_too_far", "past the end of an allocation of 4000 bytes"},
      {"v94_does_not_wait", "of stream "},
      {"v95_leaves_state", "left its state other than zero"},
      {"v96_other_stream", "a launch into another stream"}};
  const auto workload = open(ring_of(3, 1000), *device);
  for (const auto& [version, reason] : mistakes) {
    const CheckResult result = check(kernel(version), *workload, *device);
    EXPECT_NE(result.verdict, Verdict::passed) << version;
    EXPECT_THAT(result.reason, testing::HasSubstr(reason)) << version;
    EXPECT_EQ(check(kernel("v02_flags"), *workload, *device).reason, "") << "after " << version;
  }
}

#endif

TEST_F(Devices, ASmallerWorkspaceGoesOnInTheLargestOne) {
  const auto workload = open(ring_of(2, 1000), *device);
  const Call small = workload->prepare(kernel("v01_push")).call;
  Kernel larger = kernel("v02_flags");
  larger.workspace = [](const Call&) -> std::size_t { return 100'000; };
  const Workload::Prepared large = workload->prepare(larger);
  for (const Rank& rank : small.ranks) {
    EXPECT_EQ(rank.workspace, large.workspaces[static_cast<std::size_t>(rank.index)].data());
  }
}

#endif

}  // namespace
}  // namespace ladder
