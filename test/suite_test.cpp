// A group with kernels that are wrong, fail, or are not supported: the others are still measured.
#include "measure/suite.hpp"

#include "forwarding_device.hpp"
#include "relu_kernel.hpp"

#include <gmock/gmock.h>

#include <map>
#include <string>

namespace ladder {
namespace {

TEST(Suite, MeasuresTheOthersWhenOneIsWrong) {
  const Kernel kernels[] = {
      relu_kernel("v01_right.cu", right),
      relu_kernel("v02_wrong.cu", [](const void*, cudaStream_t) {}),
      relu_kernel("v03_fails.cu",
                  [](const void*, cudaStream_t) { throw std::runtime_error("out of registers"); }),
      relu_kernel("v04_picky.cu", right, [](const void*) { return unsupported("n must be 1"); }),
      relu_kernel("v05_damaging.cu",
                  [](const void* args, cudaStream_t) {
                    right(args, nullptr);
                    const_cast<float*>(static_cast<const Relu*>(args)->x[0])[0] = 3;
                  }),
      relu_kernel("v05_right.cu", right),
      relu_kernel("v06_flaky.cu",
                  [](const void* args, cudaStream_t) {
                    static int runs = 0;  // right in the three checks before and while timed
                    if (++runs <= 4) right(args, nullptr);
                  }),
      relu_kernel("v07_remembers.cu", [](const void* args, cudaStream_t) {
        const auto& r = *static_cast<const Relu*>(args);
        static std::map<const float*, std::vector<float>> results;  // of the first launch on these
        std::vector<float>& result = results[r.x[0]];
        if (result.empty()) {
          right(args, nullptr);
          result.assign(r.y, r.y + r.n);
        }
        std::copy(result.begin(), result.end(), r.y);
      })};
  const auto device = open_host_device();
  const Family& family = family_of(kernels[0]);
  Group group{&family, DType::f32, family.problem("1000"), Cache::cold, {}, {}};
  for (const Kernel& k : kernels) group.kernels.push_back(&k);
  Roofs roofs(*device, 1);
  const std::vector<Row> rows = measure(group, *device, 1, roofs);

  using enum Verdict;
  const Verdict expected[] = {passed,    incorrect, failed,    unsupported,
                              incorrect, passed,    incorrect, incorrect};
  for (std::size_t i = 0; i < std::size(kernels); ++i) {
    EXPECT_EQ(rows[i].check.verdict, expected[i]) << kernels[i].file << " " << rows[i].check.reason;
    EXPECT_EQ(rows[i].timed(), expected[i] == passed) << "only a right kernel gets a time";
  }
  EXPECT_EQ(rows[2].check.reason, "out of registers");
  EXPECT_EQ(rows[3].check.reason, "n must be 1");
  EXPECT_EQ(rows[4].check.reason, "changed its inputs");
  EXPECT_THAT(rows[6].check.reason, testing::StartsWith("after timing: "));
  EXPECT_THAT(rows[7].check.reason, testing::StartsWith("after timing: "));
}

TEST(Suite, InputsThatAreChangedWhileTimedFailAll) {
  static bool timing = false;
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right),
                            relu_kernel("v02_late.cu", [](const void* args, cudaStream_t) {
                              right(args, nullptr);
                              if (!timing) return;
                              const_cast<float*>(static_cast<const Relu*>(args)->x[0])[0] += 1;
                            })};
  const auto device = open_host_device();
  const Family& family = family_of(kernels[0]);
  Group group{&family, DType::f32, family.problem("1000"), Cache::cold, {}, {}};
  for (const Kernel& k : kernels) group.kernels.push_back(&k);
  Roofs roofs(*device, 1);
  const auto on_step = [](const Step& step) { timing = step.doing == "timing"; };
  for (const Row& row : measure(group, *device, 1, roofs, {}, on_step)) {
    EXPECT_EQ(row.check.verdict, Verdict::failed);
    EXPECT_EQ(row.check.reason, "one of those that took turns changed the inputs");
  }
}

/// A GPU on which versions take as long as their test says, and the streams that are its only roofs
/// a microsecond.
struct FakeGpu : ForwardingDevice {
  std::vector<Kernel> roofs;
  std::map<std::string, double> us;      ///< by label
  std::vector<std::string> contestants;  ///< of the last measurement

  FakeGpu() {
    for (const Kernel& k : host->kernels()) {
      if (k.op == std::string_view("dram")) roofs.push_back(k);
    }
  }
  const std::vector<Kernel>& kernels() const override { return roofs; }
  Backend backend() const override { return Backend::cuda; }
  std::vector<Samples> measure(std::span<const Contestant> all, Cache, const Sampling&) override {
    contestants.clear();
    std::vector<Samples> samples;
    for (const Contestant& contestant : all) {
      const std::string name = label(*contestant.kernel);
      const bool again =
          std::find(contestants.begin(), contestants.end(), name) != contestants.end();
      contestants.push_back(name);
      const double time = us.contains(name) ? us.at(name) : 1;
      Samples& mine = samples.emplace_back();
      for (int round = 0; round < 20; ++round) {  // the second of two wavers by 0.3 %
        mine.us.push_back(time * (1 + 0.1 * (round % 2)) * (1 + again * 0.003 * (round % 3 - 1)));
      }
      mine.states.assign(20, {.sm_mhz = 1980, .power_w = 500});
    }
    return samples;
  }
};

TEST(Suite, TellsWhatTheRunCanTellApart) {
  Kernel kernels[] = {relu_kernel("v00_vendor.cu", right), relu_kernel("v01_slow.cu", right),
                      relu_kernel("v02_tied.cu", right), relu_kernel("v03_fastest.cu", right)};
  kernels[0].version.baseline = true;
  FakeGpu gpu;
  gpu.us = {{"v00_vendor", 10}, {"v01_slow", 10.1}, {"v02_tied", 10.001}, {"v03_fastest", 10}};
  const Family& family = family_of(kernels[0]);
  Group group{&family, DType::f32, family.problem("1000"), Cache::cold, {}, {}};
  for (const Kernel& k : kernels) group.kernels.push_back(&k);
  Roofs roofs(gpu, 1);
  const std::vector<Row> rows = measure(group, gpu, 1, roofs);

  ASSERT_GT(gpu.contestants.size(), 5) << "the versions, the first of them again, the roofs";
  EXPECT_EQ(gpu.contestants[4], "v00_vendor");
  for (const Row& row : rows) {
    EXPECT_EQ(row.check.verdict, Verdict::passed) << row.check.reason;
    EXPECT_EQ(row.baseline, "v00_vendor");
    EXPECT_NEAR(row.aa->value, 1, 1e-3);
    EXPECT_GT(row.resolution(), 5e-4);
    EXPECT_LT(row.resolution(), 3e-3);
    EXPECT_NEAR(row.vs_baseline->value, 10 / gpu.us.at(label(*row.kernel)), 1e-9);
    EXPECT_NEAR(row.roof_share(), 1 / gpu.us.at(label(*row.kernel)), 1e-9);
    EXPECT_EQ(row.roof, "dram");
  }
  EXPECT_FALSE(rows[0].fastest) << "a library is no version of the ladder";
  EXPECT_FALSE(rows[1].fastest) << "1 % is told apart";
  EXPECT_TRUE(rows[2].fastest) << "0.01 % is not";
  EXPECT_TRUE(rows[3].fastest);
  EXPECT_EQ(fastest(rows), &rows[3]);
  EXPECT_NEAR(rows[1].vs_fastest->value, 10 / 10.1, 1e-9);
}

TEST(Suite, FailsAGroupThatDoesNotFitInMemory) {
  const Kernel k = relu_kernel("v01_right.cu", right);
  const auto device = open_host_device();
  const Family& family = family_of(k);
  const Group group{&family, DType::f32, family.problem("1000000000000"), Cache::cold, {&k}, {}};
  Roofs roofs(*device, 1);
  const std::vector<Row> rows = measure(group, *device, 1, roofs);
  EXPECT_EQ(rows[0].check.verdict, Verdict::failed);
  EXPECT_THAT(rows[0].check.reason,
              testing::MatchesRegex("1000000000000 needs 48000.1 GB with its reference, .* GB are "
                                    "free; choose a smaller problem"));
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the program

/// As large as one likes.
struct Endless : ForwardingDevice {
  std::size_t free_memory() const override { return SIZE_MAX; }
  void* allocate(std::size_t) override { return nullptr; }
  void release(void*) noexcept override {}
  void upload(void*, const void*, std::size_t) override {}
};

TEST(Suite, AGroupFailsForWhichTheHostLacksMemory) {
  const Kernel k = relu_kernel("v01_right.cu", right);
  Endless device;
  const Family& family = family_of(k);
  const Group group{&family, DType::f32, family.problem("1000000000000"), Cache::cold, {&k}, {}};
  Roofs roofs(device, 1);
  const std::vector<Row> rows = measure(group, device, 1, roofs);
  EXPECT_EQ(rows[0].check.verdict, Verdict::failed);
  EXPECT_THAT(rows[0].check.reason,
              testing::MatchesRegex("out of memory: 20000.0 GB are needed for the inputs and the "
                                    "answer, .* are free; choose a smaller problem"));
}

#endif

TEST(ParallelFor, ThrowsWhatAPartThrew) {
  for (const std::size_t bad : {0, 999}) {
    EXPECT_THROW(parallel_for(1000, 1,
                              [&](std::size_t begin, std::size_t end) {
                                if (begin <= bad && bad < end) throw std::bad_alloc();
                              }),
                 std::bad_alloc);
  }
}

}  // namespace
}  // namespace ladder
