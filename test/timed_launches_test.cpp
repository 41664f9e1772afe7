// No cheat gets a time, honest versions do. On a GPU only.
#include "cheats.hpp"
#include "harness/device.hpp"
#include "measure/suite.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace ladder {
namespace {

class TimedLaunches : public testing::TestWithParam<Cache> {
 protected:
  void SetUp() override {
    try {
      device_ = open_cuda_device(0);
    } catch (const std::exception& error) {
      if (std::getenv("LADDER_REQUIRE_GPU")) FAIL() << error.what();
      GTEST_SKIP() << "nothing ran on a GPU: " << error.what();
    }
  }

  std::vector<Row> measured(std::vector<Kernel> kernels) {
    const Family& family = family_of(kernels.front());
    Group group{&family, DType::f32, family.problem("16777216"), GetParam(), {}, {}};
    for (const Kernel& kernel : kernels) group.kernels.push_back(&kernel);
    Roofs roofs(*device_, 1);
    return measure(group, *device_, 1, roofs, {.max_seconds = 0.2});
  }

  std::unique_ptr<Device> device_;
};
INSTANTIATE_TEST_SUITE_P(Gpu, TimedLaunches, testing::Values(Cache::cold, Cache::dirty, Cache::hot),
                         [](const auto& one) { return std::string(to_string(one.param)); });

Kernel kernel_of(const Cheat& cheat) {
  return {"elementwise",  "relu",        DType::f32,   {cheat.name},
          "v01_cheat.cu", Backend::cuda, cheat.launch, [](const void*) { return supported(); }};
}

TEST_P(TimedLaunches, AreThoseThatAreChecked) {
  const Kernel honest = kernel_of(cheats().front());
  for (const Cheat& cheat : cheats().subspan(1)) {
    const std::vector<Row> rows = measured({honest, kernel_of(cheat)});
    EXPECT_EQ(rows[0].check.verdict, Verdict::passed) << cheat.name << ": " << rows[0].check.reason;
    EXPECT_TRUE(rows[0].timed()) << cheat.name;
    EXPECT_NE(rows[1].check.verdict, Verdict::passed) << cheat.name;
    EXPECT_FALSE(rows[1].timed()) << cheat.name;
    std::printf("%s: %s\n", cheat.name, rows[1].check.reason.c_str());
  }
}

}  // namespace
}  // namespace ladder
