// What is said where a GPU's counters cannot be read. The code is compiled here to load a CUPTI of its own.
#define LADDER_CUPTI_LIBRARIES "./libfake_cupti.so"
#include "harness/cuda/hardware_counters.cpp"

#include "error_of.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using ladder::HardwareCounters;
using testing::HasSubstr;

std::string refusal() {
  return ladder::test::error_of([] { HardwareCounters counters(0); });
}

/// Of a CUPTI whose first call answers so.
std::string refusal_after(CUptiResult answer) {
  std::filesystem::current_path(LADDER_FAKE_CUPTI_FOLDER);
  setenv("FAKE_CUPTI_ANSWER", std::to_string(answer).c_str(), 1);
  return refusal();
}

// First: a library that was loaded once stays.
TEST(HardwareCounters, WithoutCuptiNeedIt) {
  std::filesystem::current_path("/");
  EXPECT_THAT(refusal(), HasSubstr("CUPTI, which reads a GPU's counters, cannot be loaded (./lib"));
  EXPECT_THAT(refusal(), testing::EndsWith("or name its folder in LD_LIBRARY_PATH"));
}

TEST(HardwareCounters, NeedRootWhereTheDriverSaysSo) {
  EXPECT_THAT(
      refusal_after(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES),
      HasSubstr("the driver lets only root read the GPU's counters: run this as root, or have "
                "root load the driver with the option"));
}

TEST(HardwareCounters, ThatAreRefusedNameTheCallAndItsAnswer) {
  EXPECT_EQ(refusal_after(CUPTI_ERROR_HARDWARE_BUSY),
            "the GPU's counters cannot be read: cuptiProfilerInitialize answers "
            "CUPTI_ERROR_OF_THIS_TEST (" +
                std::to_string(CUPTI_ERROR_HARDWARE_BUSY) + ")");
}

TEST(HardwareCounters, NeedANewerCuptiWhereAFunctionIsMissing) {
  EXPECT_THAT(
      refusal_after(CUPTI_SUCCESS),
      HasSubstr("this CUPTI has no cuptiDeviceGetChipName: install one of CUDA 12.6 or newer"));
}

}  // namespace
