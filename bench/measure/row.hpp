// What is known of one kernel on one problem once it was measured.
#pragma once

#include "harness/check.hpp"
#include "harness/device.hpp"
#include "harness/family.hpp"
#include "harness/statistics.hpp"
#include "harness/timer.hpp"
#include "host_executor/counts.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ladder {

/// Everything known of one kernel on one problem in one cache state.
struct Row {
  const Kernel* kernel = nullptr;
  std::string family, op, label, idea;  ///< of the kernel, as the next two
  DType dtype{};
  Backend backend{};
  std::string problem, values, file_hash;  ///< its text, its fields, and of its files
  Cache cache = Cache::cold;
  CheckResult check;
  Samples samples;  ///< microseconds on the GPU, or of the CPU on the host executor
  /// How many of the samples each process gave, one after the other; empty if one gave all.
  std::vector<std::size_t> of_processes;
  Cost cost{};
  double plan_us = 0;  ///< that the version's plan took, on the CPU; 0 without one
  /// What bounds the problem: "dram", "l2", "fma f32", "wgmma bf16"; empty if unknown.
  std::string roof;
  double roof_us = 0;     ///< how long the problem takes at its roof
  double launch_us = 0;   ///< an empty launch's time; 0 if unknown
  bool is_short = false;  ///< the problem's fastest takes less than kShort empty launches
  static constexpr double kShort = 3;
  double sm_mhz = 0, power_w = 0;  ///< medians of what was read in the group; 0 if unknown
  std::string library;  ///< label of the vendor's version it is compared with, the fastest
  std::optional<Estimate> vs_library;  ///< t_library / t_kernel: above 1 is faster
  std::optional<Estimate> vs_fastest;  ///< t_fastest / t_kernel, of the ladder's versions
  bool fastest = false;  ///< the fastest of the ladder's versions, or not to be told apart from it
  /// The group's first version over itself, measured as two contestants: what the run can tell.
  std::optional<Estimate> aa;
  std::vector<KernelResources> launches;   ///< one after the other
  std::optional<Counters> counters;        ///< of the host executor
  std::optional<HardwareCounts> hardware;  ///< --counters, of the GPU

  bool timed() const { return !samples.us.empty(); }
  std::vector<std::span<const double>> us_by_process() const;
  double us() const { return mean(process_us()); }

  std::size_t processes() const { return std::max<std::size_t>(of_processes.size(), 1); }
  /// The time in each process.
  std::vector<double> process_us() const;

  /// The smallest difference that the run can tell: how far the ends of aa's interval are from 1.
  double resolution() const { return std::max(1 - aa->low, aa->high - 1); }

  /// Of a launch, at the power limit: by the group's power, which the driver averages over its turns.
  double joules() const { return power_w * us() * 1e-6; }

  /// Share of the roof, 1 at it. Above 1.03 the row is suspect: the data was in a cache, or the
  /// bytes are counted wrongly.
  bool has_roof() const { return timed() && roof_us > 0; }
  double roof_share() const { return roof_us / us(); }
  bool suspect() const { return has_roof() && roof_share() > 1.03; }

  /// What makes ./bench exit with 1.
  bool bad() const {
    return check.verdict == Verdict::incorrect || check.verdict == Verdict::failed || suspect();
  }
};

/// t_numerator / t_denominator of two rows that the same processes timed in the same rounds.
Estimate time_ratio(const Row& numerator, const Row& denominator);

/// One row of those that several processes have of a kernel on a problem: the first that did not pass, or
/// the samples of all, still to be ranked.
Row merged(std::span<const Row> of_processes);

/// The share of the readings that were under a power or thermal slowdown.
double throttled_share(std::span<const GpuState> states);

/// Which slowdowns the readings were under: "power", "thermal", "power+thermal" or "".
std::string throttle_text(std::span<const GpuState> states);

std::vector<double> readings(std::span<const GpuState> states, double GpuState::*reading);

}  // namespace ladder
