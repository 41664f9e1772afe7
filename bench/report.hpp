// The CSV: one row per kernel, problem and cache state, written as soon as it is measured; and the
// samples behind the rows.
#pragma once

#include "result_file.hpp"

#include "harness/counters.hpp"
#include "harness/device.hpp"
#include "harness/family.hpp"
#include "harness/statistics.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ladder {

/// Everything known of one kernel on one problem in one cache state.
struct Row {
  const Kernel* kernel = nullptr;
  std::string problem;
  Cache cache = Cache::cold;
  CheckResult check;
  Samples samples;  ///< microseconds on the GPU, or of the CPU on the host executor
  Cost cost{};
  std::string
      roof;  ///< what bounds the problem: "dram", "l2", "fma f32", "wgmma bf16"; empty if unknown
  double roof_us = 0;                   ///< how long the problem takes at its roof
  std::string baseline;                 ///< label of the version it is compared with
  std::optional<Estimate> vs_baseline;  ///< t_baseline / t_kernel: above 1 is faster
  std::optional<Estimate> vs_fastest;   ///< t_fastest / t_kernel, of the ladder's versions
  bool fastest = false;  ///< the fastest of the ladder's versions, or not to be told apart from it
  /// The group's first version over itself, measured as two contestants: what the run can tell.
  std::optional<Estimate> aa;
  KernelResources resources;
  std::optional<Counters> counters;  ///< on the host executor

  bool timed() const { return !samples.us.empty(); }
  double us() const { return middle_mean(samples.us); }

  /// The smallest difference that the run can tell: how far the ends of aa's interval are from 1.
  double resolution() const { return std::max(1 - aa->low, aa->high - 1); }

  /// Share of the roof, 1 at it. Above 1.03 the row is suspect: the data was in a cache, or the
  /// bytes are counted wrongly.
  bool has_roof() const { return timed() && roof_us > 0; }
  double roof_share() const { return roof_us / us(); }
  bool suspect() const { return has_roof() && roof_share() > 1.03; }
};

/// The file that rows are appended to.
class Csv {
 public:
  /// Writes the names of the columns, and rows that are kept as they are. Throws std::runtime_error
  /// when they could not be written.
  Csv(ResultFile& file, const DeviceInfo& device, std::uint64_t seed,
      const std::vector<std::string>& kept = {});

  /// The first row puts the file in place. Throws std::runtime_error when it could not be written.
  void write(const Row& row);
  const std::string& path() const { return file_.path(); }
  bool placed() const { return file_.placed(); }

 private:
  ResultFile& file_;
  DeviceInfo device_;
  std::uint64_t seed_;
};

/// The file of all samples: an array with an object for each timed row, which holds the row's
/// `family`, `op`, `kernel`, `dtype`, `problem`, `backend` and `cache` as in the CSV, and its samples
/// in microseconds, `us`; on a GPU also what the driver said while each was taken: `sm_mhz`, `power_w`
/// and `throttle`. After every row it is whole.
class SamplesJson {
 public:
  /// Writes an empty array. Throws std::runtime_error when it could not be written.
  explicit SamplesJson(ResultFile& file);

  /// The first row, timed or not, puts the file in place. Throws std::runtime_error when its samples
  /// could not be written.
  void write(const Row& row);

 private:
  void append(const Row& row);

  ResultFile& file_;
  const char* separator_ = "";
};

/// The share of the readings that were under a power or thermal slowdown.
double throttled_share(std::span<const GpuState> states);

/// The columns of a row and their values, in order.
std::vector<std::pair<const char*, std::string>> csv_cells(const Row& row, const DeviceInfo& device,
                                                           std::uint64_t seed);

/// The names of the columns, in order.
const std::vector<std::string>& csv_columns();

/// A field as CSV (RFC 4180): quoted where it must be.
std::string csv_field(const std::string& text);

}  // namespace ladder
