// A group with kernels that are wrong, fail, or are not supported: the others are still measured.
#include "suite.hpp"

#include "kernels/elementwise/elementwise.hpp"

#include <gmock/gmock.h>

namespace ladder {
namespace {

using Relu = elementwise::Args<elementwise::relu, float>;

Kernel kernel(
    const char* file, void (*launch)(const void*, cudaStream_t),
    Support (*supports)(const void*) = [](const void*) { return supported(); }) {
  return {"elementwise", "relu", DType::f32, {"test"}, file, Backend::host, launch, supports};
}

void right(const void* args, cudaStream_t) {
  const auto& r = *static_cast<const Relu*>(args);
  for (std::int64_t i = 0; i < r.n; ++i) r.y[i] = r.x[0][i] > 0 ? r.x[0][i] : 0;
}

TEST(Suite, MeasuresTheOthersWhenOneIsWrong) {
  const Kernel kernels[] = {
      kernel("v01_right.cu", right),
      kernel("v02_wrong.cu", [](const void*, cudaStream_t) {}),
      kernel("v03_fails.cu",
             [](const void*, cudaStream_t) { throw std::runtime_error("out of registers"); }),
      kernel("v04_picky.cu", right, [](const void*) { return unsupported("n must be 1"); }),
      kernel("v05_damaging.cu",
             [](const void* args, cudaStream_t) {
               right(args, nullptr);
               const_cast<float*>(static_cast<const Relu*>(args)->x[0])[0] = 3;
             }),
      kernel("v05_right.cu", right),
      kernel("v06_flaky.cu",
             [](const void* args, cudaStream_t) {
               static int runs = 0;  // right in the first check and while timed, wrong in the last
               if (++runs <= 2) right(args, nullptr);
             }),
      kernel("v07_remembers.cu", [](const void* args, cudaStream_t) {
        const auto& r = *static_cast<const Relu*>(args);
        static std::vector<float> result;  // of the first launch
        if (result.empty()) {
          right(args, nullptr);
          result.assign(r.y, r.y + r.n);
        }
        std::copy(result.begin(), result.end(), r.y);
      })};
  const auto device = open_host_device();
  Group group{&family_of(kernels[0]), DType::f32, "1000", Cache::cold, {}, {}};
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
  const Kernel kernels[] = {kernel("v01_right.cu", right),
                            kernel("v02_late.cu", [](const void* args, cudaStream_t) {
                              right(args, nullptr);
                              if (!timing) return;
                              const_cast<float*>(static_cast<const Relu*>(args)->x[0])[0] += 1;
                            })};
  const auto device = open_host_device();
  Group group{&family_of(kernels[0]), DType::f32, "1000", Cache::cold, {}, {}};
  for (const Kernel& k : kernels) group.kernels.push_back(&k);
  Roofs roofs(*device, 1);
  const auto on_step = [](const Step& step) { timing = step.doing == "timing"; };
  for (const Row& row : measure(group, *device, 1, roofs, {}, on_step)) {
    EXPECT_EQ(row.check.verdict, Verdict::failed);
    EXPECT_EQ(row.check.reason, "one of those that took turns changed the inputs");
  }
}

TEST(Suite, FailsAGroupThatDoesNotFitInMemory) {
  const Kernel k = kernel("v01_right.cu", right);
  const auto device = open_host_device();
  const Group group{&family_of(k), DType::f32, "1000000000000", Cache::cold, {&k}, {}};
  Roofs roofs(*device, 1);
  const std::vector<Row> rows = measure(group, *device, 1, roofs);
  EXPECT_EQ(rows[0].check.verdict, Verdict::failed);
  EXPECT_THAT(rows[0].check.reason, testing::HasSubstr("GB are free"));
}

}  // namespace
}  // namespace ladder
