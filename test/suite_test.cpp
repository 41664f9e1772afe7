// A group with kernels that are wrong, fail, or are not supported: the others are still measured.
#include "measure/suite.hpp"

#include "forwarding_device.hpp"
#include "kernels/roofs/roofs.hpp"
#include "relu_kernel.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ladder {
namespace {

Group group_with(std::span<const Kernel> kernels, const char* problem = "1000") {
  const Family& family = family_of(kernels.front());
  Group group{&family, DType::f32, family.problem(problem), Cache::cold, {}, {}};
  for (const Kernel& k : kernels) group.kernels.push_back(&k);
  return group;
}

TEST(Suite, MeasuresTheOthersWhenOneIsWrong) {
  const Kernel kernels[] = {
      relu_kernel("v01_right.cu", right),
      relu_kernel("v02_wrong.cu", [](const Call&, cudaStream_t) {}),
      relu_kernel("v03_fails.cu",
                  [](const Call&, cudaStream_t) { throw std::runtime_error("out of registers"); }),
      relu_kernel("v04_picky.cu", right, [](const void*) { return unsupported("n must be 1"); }),
      relu_kernel("v05_damaging.cu",
                  [](const Call& call, cudaStream_t) {
                    right(call, nullptr);
                    const_cast<float*>(static_cast<const Relu*>(call.args)->x[0])[0] = 3;
                  }),
      relu_kernel("v05_right.cu", right),
      relu_kernel("v06_flaky.cu",
                  [](const Call& call, cudaStream_t) {
                    static int runs = 0;  // right in the three checks before and while timed
                    if (++runs <= 4) right(call, nullptr);
                  }),
      relu_kernel("v07_remembers.cu", [](const Call& call, cudaStream_t) {
        const auto& r = *static_cast<const Relu*>(call.args);
        static std::map<const float*, std::vector<float>> results;  // of the first launch on these
        std::vector<float>& result = results[r.x[0]];
        if (result.empty()) {
          right(call, nullptr);
          result.assign(r.y, r.y + r.n);
        }
        std::copy(result.begin(), result.end(), r.y);
      })};
  const auto device = open_host_device();
  const Group group = group_with(kernels);
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
  EXPECT_THAT(rows[7].check.reason, testing::StartsWith("a timed launch: "));
}

/// Right in a check, where all results are poisoned.
void only_where_poisoned(const Call& call, cudaStream_t) {
  const auto& r = *static_cast<const Relu*>(call.args);
  for (std::int64_t i = 0; i < r.n; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &r.y[i], sizeof bits);
    if (bits == 0xFFFFFFFF) r.y[i] = r.x[0][i] > 0 ? r.x[0][i] : 0;
  }
}
void only_where_nan(const Call& call, cudaStream_t) {
  const auto& r = *static_cast<const Relu*>(call.args);
  for (std::int64_t i = 0; i < r.n; ++i) {
    if (i % 4 == 0 || r.y[i] != r.y[i]) r.y[i] = r.x[0][i] > 0 ? r.x[0][i] : 0;
  }
}

TEST(Suite, ATimedLaunchThatLeavesOutWhatItFindsDoneGetsNoTime) {
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right),
                            relu_kernel("v02_poison.cu", only_where_poisoned),
                            relu_kernel("v03_nan.cu", only_where_nan)};
  const auto device = open_host_device();
  Roofs roofs(*device, 1);
  const std::vector<Row> rows = measure(group_with(kernels, "10000"), *device, 1, roofs);
  EXPECT_TRUE(rows[0].timed()) << rows[0].check.reason;
  for (int i = 1; i < 3; ++i) {
    EXPECT_EQ(rows[i].check.verdict, Verdict::incorrect) << kernels[i].file;
    EXPECT_THAT(rows[i].check.reason, testing::StartsWith("a timed launch: ")) << kernels[i].file;
    EXPECT_FALSE(rows[i].timed());
  }
}

TEST(Suite, InputsThatAreChangedWhileTimedFailAll) {
  static bool timing = false;
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right),
                            relu_kernel("v02_late.cu", [](const Call& call, cudaStream_t) {
                              right(call, nullptr);
                              if (!timing) return;
                              const_cast<float*>(static_cast<const Relu*>(call.args)->x[0])[0] += 1;
                            })};
  const auto device = open_host_device();
  const Group group = group_with(kernels);
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
  std::set<std::string> waver;           ///< by label: by 0.3 %, as does the second of two
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
      const double by = again || waver.contains(name) ? 0.003 : 0;
      for (int round = 0; round < 20; ++round) {
        mine.us.push_back(time * (1 + 0.1 * (round % 2)) * (1 + by * (round % 3 - 1)));
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
  gpu.waver = {"v02_tied"};
  const Group group = group_with(kernels);
  Roofs roofs(gpu, 1);
  const std::vector<Row> rows = measure(group, gpu, 1, roofs);

  ASSERT_GT(gpu.contestants.size(), 5) << "the versions, the first of them again, the roofs";
  EXPECT_EQ(gpu.contestants[4], "v00_vendor");
  for (const Row& row : rows) {
    EXPECT_EQ(row.check.verdict, Verdict::passed) << row.check.reason;
    EXPECT_EQ(row.library, "v00_vendor");
    EXPECT_NEAR(row.aa->value, 1, 1e-3);
    EXPECT_GT(row.resolution(), 5e-4);
    EXPECT_LT(row.resolution(), 3e-3);
    EXPECT_NEAR(row.vs_library->value, 10 / gpu.us.at(label(*row.kernel)), 1e-3);
    EXPECT_NEAR(row.roof_share(), 1 / gpu.us.at(label(*row.kernel)), 1e-3);
    EXPECT_EQ(row.roof, "dram");
  }
  EXPECT_FALSE(rows[0].fastest) << "a library is no version of the ladder";
  EXPECT_FALSE(rows[1].fastest) << "1 % is told apart";
  EXPECT_LT(rows[2].vs_fastest->low, 1);
  EXPECT_TRUE(rows[2].fastest) << "0.01 % under noise is not";
  EXPECT_TRUE(rows[3].fastest);
  EXPECT_EQ(fastest(rows), &rows[3]);
  EXPECT_NEAR(rows[1].vs_fastest->value, 10 / 10.1, 1e-9);
}

TEST(Suite, ProblemsOfLessThanThreeEmptyLaunchesAreShort) {
  Kernel kernels[] = {relu_kernel("v01_slow.cu", right), relu_kernel("v02_fast.cu", right)};
  const Group group = group_with(kernels);
  FakeGpu gpu;
  for (const Kernel& k : gpu.host->kernels()) {
    if (k.op == std::string_view("launch")) gpu.roofs.push_back(k);
  }
  for (const double launch_us : {2.6, 2.7}) {
    Roofs roofs(gpu, 1);
    gpu.us = {{"v01_slow", 100}, {"v02_fast", 8}, {label(gpu.roofs.back()), launch_us}};
    std::vector<Row> rows = measure(group, gpu, 1, roofs);
    for (const Row& row : rows) {
      EXPECT_NEAR(row.launch_us, 1.05 * launch_us, 1e-9);
      EXPECT_EQ(row.is_short, launch_us > 8 / 3.) << "whichever version the row is of";
    }
    gpu.us[label(gpu.roofs.back())] = 1;
    EXPECT_NEAR(measure(group, gpu, 1, roofs)[0].launch_us, 1.05 * launch_us, 1e-9)
        << "measured once";
    rows[0].is_short = true;
    rows[1].samples = {};
    rank(rows);
    EXPECT_FALSE(rows[0].is_short);
  }
  Roofs none(gpu, 1);
  gpu.roofs.pop_back();
  EXPECT_EQ(measure(group, gpu, 1, none)[0].launch_us, 0);
  EXPECT_FALSE(measure(group, gpu, 1, none)[0].is_short) << "not known";
}

TEST(Suite, RowsOfSeveralProcessesAreRankedTogether) {
  Kernel kernels[] = {relu_kernel("v00_vendor.cu", right), relu_kernel("v01_steady.cu", right),
                      relu_kernel("v02_fickle.cu", right)};
  kernels[0].version.baseline = true;
  const Group group = group_with(kernels);
  std::vector<std::vector<Row>> of_kernels(std::size(kernels));
  for (const double fickle : {8.0, 9.5, 9.4}) {
    FakeGpu gpu;
    gpu.us = {{"v00_vendor", 10}, {"v01_steady", 9}, {"v02_fickle", fickle}};
    Roofs roofs(gpu, 1);
    const std::vector<Row> rows = measure(group, gpu, 1, roofs);
    EXPECT_EQ(fickle < 9, rows[2].fastest) << "one process is sure";
    EXPECT_EQ(fickle > 9, rows[1].fastest);
    for (std::size_t i = 0; i < rows.size(); ++i) of_kernels[i].push_back(rows[i]);
  }
  std::vector<Row> rows;
  for (const std::vector<Row>& of : of_kernels) rows.push_back(merged(of));
  rank(rows);
  for (const Row& row : rows) {
    EXPECT_THAT(row.of_processes, testing::ElementsAre(20, 20, 20));
    EXPECT_EQ(row.samples.us.size(), 60);
    EXPECT_EQ(row.samples.states.size(), 60);
    EXPECT_EQ(row.library, "v00_vendor");
    EXPECT_NEAR(row.roof_us, of_kernels[0][0].roof_us, 1e-9);
    EXPECT_NEAR(row.aa->value, 1, 1e-3);
  }
  EXPECT_NEAR(rows[2].us() / rows[1].us(), (8 + 9.5 + 9.4) / 3 / 9, 1e-9);
  EXPECT_NEAR(rows[1].vs_library->value, 10. / 9, 1e-9);
  EXPECT_NEAR(rows[1].vs_library->low, 10. / 9, 1e-6) << "the same in all";
  const Estimate& fickle = *rows[2].vs_library;
  EXPECT_NEAR(fickle.value, std::cbrt(10 / 8. * 10 / 9.5 * 10 / 9.4), 1e-9);
  EXPECT_LT(fickle.low, 1);
  EXPECT_GT(fickle.high, 1.25);
  EXPECT_EQ(fastest(rows), &rows[2]);
  EXPECT_TRUE(rows[1].fastest && rows[2].fastest) << "which is faster changes by the process";

  of_kernels[1][1].check.verdict = Verdict::incorrect;
  EXPECT_EQ(merged(of_kernels[1]).check.verdict, Verdict::incorrect);
}

/// The same with two more roofs.
struct CountingGpu : FakeGpu {
  DeviceInfo about = host->info();

  CountingGpu() {
    about.pin_gbps = 1e3;
    const auto supports = [](const void*) { return supported(); };
    const auto count = [](const Call& call, cudaStream_t) {
      using Op = roofs::shared_atomics;
      const auto& a = *static_cast<const Op::Args<std::int32_t>*>(call.args);
      std::fill_n(a.y, a.blocks * a.counters, Op::kBlock * Op::kSteps / a.counters);
    };
    const auto multiply = [](const Call& call, cudaStream_t) {
      using Op = roofs::fma;
      const auto& a = *static_cast<const Op::Args<float>*>(call.args);
      for (std::int64_t i = 0; i < a.blocks * Op::kBlock; ++i) {
        a.y[i] = static_cast<float>(Op::result<float>(a.b[i % Op::kBlock], a.steps));
      }
    };
    roofs.push_back({"roofs",
                     "shared_atomics",
                     DType::i32,
                     {"test"},
                     "v01_count.cu",
                     Backend::host,
                     count,
                     supports});
    roofs.push_back({"roofs",
                     "fma",
                     DType::f32,
                     {"test"},
                     "v01_multiply.cu",
                     Backend::host,
                     multiply,
                     supports});
  }
  const DeviceInfo& info() const override { return about; }
};

TEST(Suite, HoldsRowsAgainstTheRoofsThatTheFamilyDemands) {
  const Kernel k = relu_kernel("v01_right.cu", right);
  CountingGpu gpu;
  gpu.us = {{"v01_right", 40}, {"v01_count", 5}, {"v01_multiply", 10}};
  Group group = group_with({&k, 1});
  Family family = *group.family;
  group.family = &family;
  static std::vector<Demand> demands;
  family.demands = [](const Problem&, DType, const Cost&) { return demands; };
  static constexpr double kWork = 1e12;
  family.cost = [](const Problem&, DType) { return Cost{kWork, 4000, 4000}; };
  Roofs roofs(gpu, 1);
  const auto row = [&](std::vector<Demand> of_family) {
    demands = std::move(of_family);
    return measure(group, gpu, 1, roofs).front();
  };

  const auto launch = [](std::string_view op, const char* problem, DType dtype) {
    const auto it = std::ranges::find(families(), op, &Family::op);
    return it->cost(it->problem(problem), dtype).flops;
  };
  const double additions = launch("shared_atomics", "1056x1024", DType::i32);
  const double products = launch("fma", "16896x1024", DType::f32);

  Row found = row({{"dram", 8000}});
  EXPECT_EQ(found.roof, "dram");
  EXPECT_NEAR(found.roof_share(), 1. / 40, 1e-9);
  found = row({{"dram", 8000}, {"shared atomics", 4 * additions}, {"fma f32", products}});
  EXPECT_EQ(found.roof, "shared atomics");
  EXPECT_NEAR(found.roof_share(), 4 * 5. / 40, 1e-9);
  found = row({{"dram", 8000}, {"shared atomics", additions}, {"fma f32", 3 * kWork}});
  EXPECT_EQ(found.roof, "fma f32 / 3") << "three for each useful one";
  EXPECT_NEAR(found.roof_share(), 3 * kWork / products * 10 / 40, 1e-9);
  found = row({{"dram", 8000}, {"link", 1e15}, {"tensor f16", 1e15}});
  EXPECT_EQ(found.roof, "dram") << "of the others there is no kernel";

  demands.clear();
  family.demands = [](const Problem&, DType, const Cost&) {
    return std::vector<Demand>{{"warps", 1}};
  };
  found = measure(group, gpu, 1, roofs).front();
  EXPECT_EQ(found.check.verdict, Verdict::failed);
  EXPECT_THAT(found.check.reason,
              testing::StartsWith("no roof is called \"warps\": there are dram"));
}

/// The same with little memory.
struct SmallGpu : FakeGpu {
  std::size_t memory = std::size_t{1} << 30;
  std::map<void*, std::size_t> taken;  ///< by address

  std::size_t used() const {
    std::size_t bytes = 0;
    for (const auto& [address, size] : taken) bytes += size;
    return bytes;
  }
  std::size_t free_memory() const override { return memory - used(); }
  void* allocate(std::size_t bytes) override {
    void* const address = FakeGpu::allocate(bytes);
    taken[address] = bytes;
    return address;
  }
  void release(void* address) noexcept override {
    taken.erase(address);
    FakeGpu::release(address);
  }
};

std::vector<Row> admitted(const Group& group) {
  std::vector<Row> rows;
  for (const Kernel* kernel : group.kernels) rows.push_back(unmeasured_row(group, *kernel));
  return rows;
}

TEST(Stages, AdmitGivesTheRoofsMemoryBackWhereItIsShort) {
  const Kernel kernels[] = {
      relu_kernel("v01_right.cu", right),
      relu_kernel("v02_picky.cu", right, [](const void*) { return unsupported("n must be 1"); })};
  const Group group = group_with(kernels);
  SmallGpu gpu;
  Roofs roofs(gpu, 1);
  EXPECT_FALSE(roofs.bounds({0, 1e5, 1e5}, std::vector<Demand>{{"dram", 2e5}}).empty());
  const std::size_t held = gpu.used();
  ASSERT_GT(held, 2e5);
  std::vector<Row> rows = admit(group, gpu, roofs);
  EXPECT_EQ(rows[0].check.verdict, Verdict::passed);
  EXPECT_EQ(rows[1].check.verdict, Verdict::unsupported);
  EXPECT_EQ(rows[1].check.reason, "n must be 1");
  EXPECT_EQ(gpu.used(), held) << "there is enough for both";

  gpu.memory = held + 1000;
  rows = admit(group, gpu, roofs);
  EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << rows[0].check.reason;
  EXPECT_EQ(gpu.used(), 0);

  gpu.memory = 1000;
  rows = admit(group, gpu, roofs);
  EXPECT_EQ(rows[0].check.verdict, Verdict::failed);
  EXPECT_THAT(rows[0].check.reason, testing::StartsWith("1000 needs "));
  EXPECT_EQ(rows[1].check.reason, "n must be 1") << "stays unsupported";
}

TEST(Stages, CheckTriesAllInputsAndAnotherOrder) {
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right),
                            relu_kernel("v02_wrong.cu", [](const Call&, cudaStream_t) {}),
                            relu_kernel("v03_in_order.cu",
                                        [](const Call& call, cudaStream_t) {
                                          static int runs = 0;
                                          if (++runs == 1) right(call, nullptr);
                                        }),
                            relu_kernel("v04_out.cu", right)};
  const auto device = open_host_device();
  const Group group = group_with(kernels);
  std::vector<std::string> steps;
  std::vector<Row> rows = admitted(group);
  rows[3].check = {.verdict = Verdict::unsupported, .reason = "not here"};
  const auto workload =
      check({group, *device, 1, [&](const Step& step) { steps.push_back(step.doing); }}, rows);

  const std::string in_other_order = "checking (inputs: uniform; lane order 1)";
  EXPECT_THAT(steps, testing::ElementsAre(
                         "preparing the inputs", "checking", "checking", "preparing the inputs",
                         "checking", in_other_order, in_other_order, "preparing the inputs",
                         "preparing the inputs", "checking (inputs: edges; lane order 1)"));
  EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << rows[0].check.reason;
  EXPECT_EQ(rows[1].check.verdict, Verdict::incorrect);
  EXPECT_THAT(rows[1].check.reason, testing::HasSubstr(" elements wrong; "));
  EXPECT_EQ(rows[2].check.verdict, Verdict::incorrect);
  EXPECT_THAT(rows[2].check.reason, testing::StartsWith("inputs: uniform; lane order 1; "));
  EXPECT_EQ(rows[3].check.reason, "not here");
#if !defined(__SANITIZE_ADDRESS__)  // which counts nothing
  EXPECT_TRUE(rows[0].counters.has_value());
#endif
  EXPECT_FALSE(rows[1].counters.has_value() || rows[2].counters.has_value());
  EXPECT_TRUE(workload->inputs_are_intact());
}

/// The numbers of elements that a kernel was launched on.
std::vector<std::int64_t> launched_on;

void right_and_noted(const Call& call, cudaStream_t) {
  launched_on.push_back(static_cast<const Relu*>(call.args)->n);
  right(call, nullptr);
}
void wrong_when_small(const Call& call, cudaStream_t) {
  launched_on.push_back(static_cast<const Relu*>(call.args)->n);
  if (launched_on.back() == 0 || launched_on.back() > 100) right(call, nullptr);
}

TEST(Stages, TestProblemsAreTriedOnceAndAMistakeThereFailsOnAllProblems) {
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right_and_noted),
                            relu_kernel("v02_small.cu", wrong_when_small)};
  for (const bool on_gpu : {true, false}) {
    FakeGpu gpu;
    const auto host = open_host_device();
    Device& device = on_gpu ? gpu : *host;
    Roofs roofs(device, 1);
    TriedProblems known;
    known.host_seconds = 10;  // of other families
    std::string reason;
    for (const char* problem : {"1000", "2000"}) {
      const Group group = group_with(kernels, problem);
      launched_on.clear();
      const std::vector<Row> rows = measure(
          group, device, 1, roofs, {}, [](const Step&) {}, &known);
      EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << rows[0].check.reason;
      EXPECT_TRUE(rows[0].timed());
      EXPECT_EQ(rows[1].check.verdict, Verdict::incorrect);
      EXPECT_FALSE(rows[1].timed() || rows[1].counters.has_value());
      EXPECT_THAT(rows[1].check.reason,
                  testing::ContainsRegex(
                      on_gpu ? "^inputs: [a-z]+ at the test problem [0-9]+; [0-9]+ of"
                             : "^inputs: [a-z]+ at the test problem [0-9]+; lane order 1; "));
      if (problem == std::string_view("1000")) {
        reason = rows[1].check.reason;
        for (const Problem& of_family : group.family->test_problems()) {
          const auto n = std::stoll(of_family.text());
          EXPECT_TRUE(std::ranges::count(launched_on, n) > 0) << n;
        }
        continue;
      }
      EXPECT_EQ(rows[1].check.reason, reason);
      EXPECT_THAT(launched_on, testing::Each(2000));
    }
  }
}

TEST(Stages, WhatAMistakeOnATestProblemDamagesIsMadeAnew) {
  static float* inputs = nullptr;  // of the group's problem
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right),
                            relu_kernel("v02_damages.cu", [](const Call& call, cudaStream_t) {
                              const Relu& r = *static_cast<const Relu*>(call.args);
                              if (!inputs) inputs = const_cast<float*>(r.x[0]);
                              if (r.n != 1000) ++*inputs;
                              if (r.n == 1000) right(call, nullptr);
                            })};
  FakeGpu gpu;
  Roofs roofs(gpu, 1);
  TriedProblems known;
  const auto rows = measure(
      group_with(kernels), gpu, 1, roofs, {}, [](const Step&) {}, &known);
  EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << rows[0].check.reason;
  EXPECT_EQ(rows[1].check.verdict, Verdict::incorrect);
}

TEST(Stages, AVersionsOwnTestProblemsAreTriedWithItAlone) {
  static constexpr elementwise::Problem kOwn[] = {{1, 777}};
  Kernel kernels[] = {relu_kernel("v01_right.cu", right_and_noted),
                      relu_kernel("v02_own.cu", [](const Call& call, cudaStream_t) {
                        if (static_cast<const Relu*>(call.args)->n != 777) right(call, nullptr);
                      })};
  kernels[1].test_problems = {kOwn, std::size(kOwn)};
  FakeGpu gpu;
  Roofs roofs(gpu, 1);
  TriedProblems known;
  launched_on.clear();
  const auto rows = measure(
      group_with(kernels), gpu, 1, roofs, {}, [](const Step&) {}, &known);
  EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << rows[0].check.reason;
  EXPECT_THAT(launched_on, testing::Not(testing::Contains(777)));
  EXPECT_THAT(rows[1].check.reason, testing::HasSubstr(" at the test problem 777; "));
}

TEST(Stages, TestProblemsTakeASecondAndOnTheHostExecutorAShareOfTheChecks) {
  const Kernel k = relu_kernel("v01_right.cu", right_and_noted);
  const Group group = group_with({&k, 1});
  FakeGpu gpu;
  const auto host = open_host_device();
  const auto first_tried = [&](Device& device, TriedProblems known, std::uint64_t seed = 1) {
    std::vector<Row> rows = admitted(group);
    launched_on.clear();
    try_test_problems({group, device, seed}, known, 1e-9, rows);
    EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << rows[0].check.reason;
    return launched_on.empty() ? -1 : launched_on.front();
  };
  EXPECT_GE(first_tried(gpu, {}), 0);
  EXPECT_GE(first_tried(gpu, {.host_seconds = -1}), 0);
  EXPECT_GE(first_tried(*host, {.host_seconds = 1}), 0);
  EXPECT_EQ(first_tried(*host, {.host_seconds = -1}), -1) << "the checks were too short";
  TriedProblems spent;
  spent.seconds[{group.family, DType::f32}] = 0;
  EXPECT_EQ(first_tried(gpu, spent), -1);

  std::set<std::int64_t> firsts;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) firsts.insert(first_tried(gpu, {}, seed));
  EXPECT_GT(firsts.size(), 3) << "over runs all are tried";
  EXPECT_EQ(first_tried(gpu, {}, 7), first_tried(gpu, {}, 7));
}

TEST(Stages, ContendTimesThoseThatPassedAndTheRoofs) {
  Kernel kernels[] = {relu_kernel("v01_slow.cu", right), relu_kernel("v02_wrong.cu", right),
                      relu_kernel("v03_planned.cu", right)};
  kernels[2].plan = [](const void*, bool) -> const void* { return "a plan"; };
  kernels[2].forget = [](const void*) {};
  const Group group = group_with(kernels);
  FakeGpu gpu;
  gpu.us = {{"v01_slow", 10}, {"v03_planned", 5}};
  std::vector<Row> rows = admitted(group);
  rows[1].check.verdict = Verdict::incorrect;
  const Family& family = *group.family;
  auto open_on = [&](Device& device) {
    return family.open(group.problem, DType::f32, family.input_sets().front(), 1, device);
  };
  Roofs roofs(gpu, 1);
  const auto workload = open_on(gpu);
  std::map<std::string, std::size_t> steps;
  const Context context{group, gpu, 1, [&](const Step& s) { steps[s.doing] = s.kernels; }};
  const Contest contest = contend(context, *workload, roofs, {}, rows);
  ASSERT_EQ(contest.versions.size(), 2);
  EXPECT_EQ(contest.versions[0].us.front(), 10);
  EXPECT_EQ(contest.versions[1].us.front(), 5);
  EXPECT_EQ(contest.first_again.us.size(), 20);
  ASSERT_EQ(contest.roof_us.size(), 1) << "no kernel measures fma f32 here";
  EXPECT_NEAR(contest.roof_us.at("dram"), middle_mean(contest.versions[1].us) / 5, 1e-9);
  EXPECT_EQ(rows[0].plan_us, 0);
  EXPECT_GT(rows[2].plan_us, 0);
  EXPECT_EQ(steps["timing"], gpu.contestants.size());
  EXPECT_EQ(steps["measuring the roofs"], gpu.roofs.size());

  const auto host = open_host_device();
  Roofs none(*host, 1);
  const auto on_host = open_on(*host);
  const Contest there = contend({group, *host, 1}, *on_host, none, {}, rows);
  EXPECT_EQ(there.versions.size(), 2);
  EXPECT_TRUE(there.first_again.us.empty());
  EXPECT_TRUE(there.roof_us.empty());
}

Samples without_samples(const char* error) {
  Samples samples;
  samples.error = error;
  return samples;
}

/// The host executor, lost once a kernel that was timed has failed.
struct Losable : ForwardingDevice {
  bool lost() override { return is_lost; }
  std::vector<Samples> measure(std::span<const Contestant> all, Cache, const Sampling&) override {
    return std::vector<Samples>(all.size(), without_samples("a late fault"));
  }
  bool is_lost = false;
};

TEST(Stages, ContendEndsWhereTheDeviceIsLost) {
  const Kernel k = relu_kernel("v01_right.cu", right);
  const Group group = group_with({&k, 1});
  Losable device;
  Roofs roofs(device, 1);
  std::vector<Row> rows = admitted(group);
  const Context context{group, device, 1};
  const auto workload = check(context, rows);
  EXPECT_EQ(contend(context, *workload, roofs, {}, rows).versions[0].error, "a late fault");
  device.is_lost = true;
  EXPECT_THROW(contend(context, *workload, roofs, {}, rows), DeviceLost);
}

TEST(Stages, RecheckGivesSamplesToThoseThatAreStillRight) {
  static bool timed = false;
  timed = false;
  const Kernel kernels[] = {relu_kernel("v01_right.cu", right), relu_kernel("v02_failed.cu", right),
                            relu_kernel("v03_tired.cu",
                                        [](const Call& call, cudaStream_t) {
                                          if (!timed) right(call, nullptr);
                                        }),
                            relu_kernel("v04_late.cu", right)};
  const auto device = open_host_device();
  Group group = group_with(kernels);
  std::vector<std::string> steps;
  const Context context{group, *device, 1, [&](const Step& step) { steps.push_back(step.doing); }};
  std::vector<Row> rows = admitted(group);
  rows[1].check = {.verdict = Verdict::failed, .reason = "before"};
  const auto workload = check(context, rows);
  timed = true;
  Contest contest{.versions{3, without_samples("a late fault")}};
  for (std::size_t i = 0; i < 2; ++i) {
    contest.versions[i].us = {1};
    contest.versions[i].error.clear();
  }
  const std::vector<Row> before = rows;
  steps.clear();
  recheck(context, *workload, contest, rows);
  EXPECT_THAT(steps, testing::ElementsAre("preparing the inputs of a timed launch",
                                          "checking again", "checking again", "checking again"));
  EXPECT_EQ(rows[0].samples.us, std::vector<double>{1});
  EXPECT_EQ(rows[1].check.reason, "before");
  EXPECT_EQ(rows[2].check.verdict, Verdict::incorrect);
  EXPECT_THAT(rows[2].check.reason, testing::StartsWith("after timing: "));
  EXPECT_EQ(rows[3].check.verdict, Verdict::failed);
  EXPECT_EQ(rows[3].check.reason, "a late fault");
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_FALSE(rows[i].timed());

  const Buffer& input = workload->buffers()[0];
  device->fill(input.data(), 0, input.bytes());
  rows = before;
  EXPECT_THROW(recheck(context, *workload, contest, rows), std::runtime_error);
}

/// Rows of the vendor's versions and ours, timed in so many microseconds; the first twice.
struct Compared {
  std::vector<Kernel> kernels;
  std::vector<Row> rows;
  Contest contest{};

  explicit Compared(std::vector<double> us, std::vector<const char*> files = {
                                                "v00_vendor.cu", "v01_slow.cu", "v02_fast.cu"}) {
    for (const char* file : files) {
      kernels.push_back(relu_kernel(file, right));
      kernels.back().version.baseline = std::string_view(file).starts_with("v00");
    }
    rows = admitted(group_with(kernels));
    for (std::size_t i = 0; i < us.size(); ++i) {
      rows[i].samples.us.assign(20, us[i]);
      contest.versions.push_back(rows[i].samples);
    }
    contest.first_again = contest.versions.front();
  }
};

TEST(Stages, CompareTakesTheRoofThatBounds) {
  struct Case {
    std::map<std::string, double> known;
    Cache cache;
    std::size_t l2_bytes;
    const char* roof;
    double roof_us;
  };
  constexpr std::size_t kEnough = 1 << 20;
  for (const Case& one :
       {Case{{{"dram", 4}}, Cache::cold, kEnough, "dram", 4},
        Case{{{"dram", 4}, {"fma f32", 5}, {"gather", 3}}, Cache::cold, kEnough, "fma f32", 5},
        Case{{{"dram", 4}, {"fma f32", 5}, {"gather", 6}}, Cache::hot, kEnough, "gather", 6},
        Case{{{"dram", 4}, {"fma f32", 3}}, Cache::hot, kEnough, "l2", 4},
        Case{{{"dram", 4}}, Cache::hot, 100, "dram", 4},
        Case{{{"fma f32", 5}}, Cache::cold, kEnough, "", 0}}) {
    Compared of({10, 9, 8});
    for (Row& row : of.rows) row.cache = one.cache;
    of.contest.roof_us = one.known;
    compare(of.contest, one.l2_bytes, of.rows);
    for (const Row& row : of.rows) {
      EXPECT_EQ(row.roof, one.roof);
      EXPECT_EQ(row.roof_us, one.roof_us);
    }
  }
}

TEST(Stages, CompareHoldsRowsAgainstTheLibraryAndTheFastest) {
  Compared of({10, 9, 8});
  compare(of.contest, 0, of.rows);
  EXPECT_EQ(of.rows[2].library, "v00_vendor");
  EXPECT_NEAR(of.rows[2].vs_library->value, 10.0 / 8, 1e-9);
  EXPECT_NEAR(of.rows[1].vs_fastest->value, 8.0 / 9, 1e-9);
  EXPECT_TRUE(of.rows[2].fastest);
  EXPECT_FALSE(of.rows[1].fastest || of.rows[0].fastest);

  Compared suspect({10, 9, 8});
  suspect.contest.roof_us = {{"dram", 8.5}};
  compare(suspect.contest, 0, suspect.rows);
  EXPECT_TRUE(suspect.rows[2].suspect() && suspect.rows[2].bad());
  EXPECT_FALSE(suspect.rows[1].bad());
  EXPECT_FALSE(suspect.rows[2].fastest) << "in less time than its bytes take";
  EXPECT_TRUE(suspect.rows[1].fastest);

  Compared alone({10, 9, 8});
  alone.rows[0].samples = {};
  alone.contest.first_again = {};
  compare(alone.contest, 0, alone.rows);
  EXPECT_EQ(alone.rows[1].library, "") << "it was not timed";
  EXPECT_FALSE(alone.rows[1].vs_library.has_value());
  EXPECT_FALSE(alone.rows[1].aa.has_value());
  EXPECT_FALSE(alone.rows[1].vs_fastest.has_value()) << "what the run can tell isn't known";
}

TEST(Stages, ClockAndPowerAreOfTheGroup) {
  Compared of({10, 9, 8});
  for (std::size_t i = 0; i < of.rows.size(); ++i) {  // whoever runs while the driver reads them
    of.rows[i].samples.states.assign(20, {.sm_mhz = 1600 + 100. * i, .power_w = 690 + 10. * i});
  }
  compare(of.contest, 0, of.rows);
  for (const Row& row : of.rows) {
    EXPECT_EQ(row.sm_mhz, 1700);
    EXPECT_EQ(row.power_w, 700);
    EXPECT_NEAR(row.joules(), 700e-6 * row.us(), 1e-12);
  }
}

TEST(Stages, CompareTakesTheFastestOfTheVendorsVersions) {
  struct Case {
    double us[2];  // of the vendor's
    double roof_us;
    const char* library;
    int failed = -1;
  };
  for (const Case& one : {Case{{10, 8}, 1, "v00b_other"}, Case{{8, 10}, 1, "v00_vendor"},
                          Case{{10, 8}, 1, "v00_vendor", 1}, Case{{8, 10}, 1, "v00b_other", 0},
                          Case{{10, 8}, 8.5, "v00_vendor"},    // the other is suspect
                          Case{{10, 8}, 12, "v00b_other"}}) {  // and so are both
    Compared of({one.us[0], one.us[1], 9}, {"v00_vendor.cu", "v00b_other.cu", "v01_ours.cu"});
    of.contest.roof_us = {{"dram", one.roof_us}};
    if (one.failed >= 0) of.rows[static_cast<std::size_t>(one.failed)].samples = {};
    compare(of.contest, 0, of.rows);
    const double us = one.us[one.library == std::string_view("v00b_other")];
    for (const Row& row : of.rows) {
      EXPECT_EQ(row.library, one.library);
      ASSERT_EQ(row.vs_library.has_value(), row.timed());
      if (row.timed()) {
        EXPECT_NEAR(row.vs_library->value, us / row.us(), 1e-9);
      }
    }
  }
}

TEST(Suite, FailsAGroupThatDoesNotFitInMemory) {
  const Kernel k = relu_kernel("v01_right.cu", right);
  const auto device = open_host_device();
  const Group group = group_with({&k, 1}, "1000000000000");
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
  const Group group = group_with({&k, 1}, "1000000000000");
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
