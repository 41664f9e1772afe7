// What --counters prints and writes of counters that are made up here.
#include "explain/counters.hpp"

#include "cli/text.hpp"
#include "forwarding_device.hpp"
#include "report/csv.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace ladder {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Counts as hardware does what the host executor counts, but for `error` sectors loaded, and shares.
struct CountingDevice final : ForwardingDevice {
  std::uint64_t error = 0;
  bool refuses = false;
  std::vector<Cache> caches;

  std::optional<HardwareCounts> count_by_hardware(const Kernel& kernel, const Call& call,
                                                  Cache cache) override {
    if (refuses) throw NoHardwareCounters("only root may");
    caches.push_back(cache);
    const Counters counters = host->count(kernel, call).value();
    HardwareCounts counts;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto counterpart = hardware_counters()[i].host;
      counts[i] = counterpart ? static_cast<double>(counterpart(counters)) : 12.5;
    }
    *counts[kGlobalLoadSectors] += static_cast<double>(error);
    counts[kTensorPercent].reset();  // as of a GPU that lacks the metric
    return counts;
  }
};

class CountersOfHardware : public testing::Test {
 protected:
  static Group group(const std::string& family, const std::string& version,
                     const std::string& problem) {
    for (const Family& one : families()) {
      if (one.name != family) continue;
      Group made{&one, DType::f32, one.parse(problem).value(), Cache::cold, {}, {}};
      for (const Kernel& kernel : kernels_for(Backend::host)) {
        if (full_name(kernel).starts_with(version)) made.kernels.push_back(&kernel);
      }
      return made;
    }
    throw std::logic_error(family);
  }

  /// A row's field.
  static std::string cell(const Row& row, const std::string& column) {
    for (const auto& [name, text] : csv_cells(row, {}, 1)) {
      if (name == column) return text;
    }
    return "no such column";
  }

  CountingDevice device;
  std::unique_ptr<Device> host = open_host_device();
};

TEST_F(CountersOfHardware, StandBesideTheHostExecutors) {
  const auto rows =
      count_by_hardware(group("transpose", "transpose/f32/v0", "128x128"), device, *host, 1);
  ASSERT_GE(rows.size(), 2u);
  const std::string table = counters_table(rows, false);
  EXPECT_THAT(table, testing::StartsWith("transpose f32 128x128 · L2 cold\n"));
  EXPECT_THAT(table,
              ContainsRegex("  v01 naive +GPU +512 2048 +512 +16k +0 +0 +12.5 B +12 % +– +12 %\n"
                            " +host +512 2048 +512 +16k +0 +0\n"));
  EXPECT_THAT(table, Not(HasSubstr("!")));
  std::istringstream in(table);
  for (std::string line; std::getline(in, line);) {
    EXPECT_LE(width_of(line), 100u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST_F(CountersOfHardware, WhatDiffersIsMarkedToTheLastDigit) {
  device.error = 1;
  const auto rows =
      count_by_hardware(group("transpose", "transpose/f32/v01_", "512x512"), device, *host, 1);
  EXPECT_THAT(counters_table(rows, false),
              ContainsRegex("GPU +8192 32769 ! .*\n +host +8192 32768 "));
}

TEST_F(CountersOfHardware, AreColumnsOfTheCsvWithoutTimes) {
  device.error = 1;
  const auto rows =
      count_by_hardware(group("transpose", "transpose/f32/v02_", "128x128"), device, *host, 1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(cell(rows[0], "global_ld_sectors"), "2048");
  EXPECT_EQ(cell(rows[0], "hw_global_ld_sectors"), "2049");
  EXPECT_EQ(cell(rows[0], "hw_shared_ld_wavefronts"), "16384");
  EXPECT_EQ(cell(rows[0], "hw_issue_pct"), "12.5");
  EXPECT_EQ(cell(rows[0], "hw_tensor_pct"), "");
  EXPECT_EQ(cell(rows[0], "verdict"), "passed");
  EXPECT_EQ(cell(rows[0], "time_us"), "");
  EXPECT_EQ(cell(rows[0], "host_ms"), "");
  EXPECT_EQ(cell(Row{}, "hw_global_ld_sectors"), "") << "of a row that was timed";
}

TEST_F(CountersOfHardware, TheHostExecutorIsSparedLargeProblems) {
  const auto rows =
      count_by_hardware(group("transpose", "transpose/f32/v01_", "1024x1024"), device, *host, 1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].hardware);
  EXPECT_FALSE(rows[0].counters);
  EXPECT_THAT(counters_table(rows, false), Not(HasSubstr("host")));
}

TEST_F(CountersOfHardware, OfTheHotCacheAreAskedForAsSuch) {
  Group hot = group("transpose", "transpose/f32/v01_", "32x32");
  hot.cache = Cache::hot;
  const auto rows = count_by_hardware(hot, device, *host, 1);
  EXPECT_THAT(device.caches, testing::ElementsAre(Cache::hot));
  EXPECT_THAT(counters_table(rows, false), HasSubstr("L2 hot"));
}

TEST_F(CountersOfHardware, ThatCannotBeReadAreNoKernelsFault) {
  device.refuses = true;
  EXPECT_THROW(
      count_by_hardware(group("transpose", "transpose/f32/v01_", "32x32"), device, *host, 1),
      NoHardwareCounters);
}

TEST_F(CountersOfHardware, AVersionThatFailsHasItsReason) {
  const auto rows = count_by_hardware(group("transpose", "transpose/f32/v01_", "500000x1000000"),
                                      device, *host, 1);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0].check.verdict, Verdict::failed);
  EXPECT_FALSE(rows[0].hardware);
  EXPECT_THAT(counters_table(rows, false), HasSubstr("failed: "));
}

TEST(HardwareCounters, AreTen) {
  EXPECT_EQ(hardware_counters().size(), 10u);
  for (const HardwareCounter& counter : hardware_counters()) {
    EXPECT_THAT(counter.column, testing::StartsWith("hw_"));
    ASSERT_FALSE(counter.metrics.empty()) << counter.column;
    for (const auto& summands : counter.metrics) EXPECT_FALSE(summands.empty()) << counter.column;
  }
}

}  // namespace
}  // namespace ladder
