#include "report/csv.hpp"

#include "cli/text.hpp"
#include "ladder_git_sha.hpp"
#include "report/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ctime>

namespace ladder {
namespace {

std::string number(double value) { return fmt::format("{:.6g}", value); }

/// A count to its last digit.
std::string whole_or_short(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : number(value);
}

std::string extent(const dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); }

/// "8x1x1 of 256x1x1, 40 registers; …", one after the other.
std::string launches_text(std::span<const KernelResources> launches, bool gpu) {
  std::vector<std::string> all;
  for (const auto& [launch, registers, static_shared, local_bytes, occupancy] : launches) {
    const std::string of_registers = gpu ? fmt::format(", {} registers", registers) : "";
    all.push_back(extent(launch.grid) + " of " + extent(launch.block) + of_registers);
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace

// In one place, so that names and values cannot drift apart.
std::vector<std::pair<const char*, std::string>> csv_cells(const Row& row, const DeviceInfo& device,
                                                           std::uint64_t seed) {
  const bool gpu = row.backend == Backend::cuda;
  const bool checked =
      row.check.verdict == Verdict::passed || row.check.verdict == Verdict::incorrect;
  const bool timed = gpu && row.timed();
  const KernelResources largest = largest_of(row.launches);
  const bool launched = !row.launches.empty();
  const std::vector<GpuState>& states = row.samples.states;
  const bool watched = timed && row.sm_mhz > 0;
  const bool knows_launch = timed && row.launch_us > 0;
  const double us = row.timed() ? row.us() : 0;
  auto when = [](bool known, auto&& text) { return known ? text() : std::string(); };
  auto of = [&](bool known, double value) { return known ? number(value) : std::string(); };
  auto quantile_of = [&](double q) {
    return when(timed, [&] { return number(quantile(row.samples.us, q)); });
  };
  const Counters counters = row.counters.value_or(Counters{});
  const Requests shared_load = counters.shared_load_wavefronts();
  const Requests shared_store = counters.shared_store_wavefronts();
  auto counted = [&](std::uint64_t n) {
    return when(row.counters.has_value(), [&] { return fmt::format("{}", n); });
  };
  const auto vs_library = row.vs_library.value_or(Estimate{});
  const bool compared = row.vs_library.has_value();
  const auto vs_fastest = row.vs_fastest.value_or(Estimate{});
  const bool ranked = row.vs_fastest.has_value();
  const auto aa = row.aa.value_or(Estimate{});

  std::vector<std::pair<const char*, std::string>> cells{
      {"family", row.family},
      {"op", row.op},
      {"kernel", row.label},
      {"idea", row.idea},
      {"dtype", to_string(row.dtype)},
      {"problem", row.problem},
      {"values", row.values},
      {"file_hash", row.file_hash},
      {"backend", gpu ? "cuda" : "host"},
      {"device", device.name},
      {"cc", when(gpu, [&] { return fmt::format("{}", device.compute_capability); })},
      {"sms", number(device.sm_count)},
      {"verdict", to_string(row.check.verdict)},
      {"reason", row.check.reason},
      {"max_err", of(checked, row.check.error)},
      {"tolerance", of(checked, row.check.tolerance)},
      {"cache", when(gpu, [&] { return std::string(to_string(row.cache)); })},
      {"flush", when(gpu && row.cache != Cache::hot,
                     [&] { return std::string(row.cache == Cache::cold ? "read" : "write"); })},
      {"processes", when(timed, [&] { return fmt::format("{}", row.processes()); })},
      {"between_pct", of(timed && row.processes() > 1, 100 * relative_stdev(row.process_us()))},
      {"samples", when(timed, [&] { return fmt::format("{}", row.samples.us.size()); })},
      {"time_us", of(timed, us)},
      {"time_us_min", quantile_of(0)},
      {"time_us_median", quantile_of(0.5)},
      {"time_us_p95", quantile_of(0.95)},
      {"rel_stdev", of(timed, relative_stdev(row.samples.us))},
      {"host_ms", of(!gpu && row.timed(), us / 1000)},
      {"plan_us", of(row.plan_us > 0, row.plan_us)},
      {"flops", number(row.cost.flops)},
      {"bytes", number(row.cost.bytes())},
      {"intensity", number(row.cost.flops / row.cost.bytes())},
      {"gflops", of(timed, row.cost.flops / us / 1e3)},
      {"gbps", of(timed, row.cost.bytes() / us / 1e3)},
      {"roof", row.roof},
      {"roof_pct", of(row.has_roof(), 100 * row.roof_share())},
      {"suspect", when(row.has_roof(), [&] { return std::string(row.suspect() ? "yes" : "no"); })},
      {"library", row.library},
      {"vs_library", of(compared, vs_library.value)},
      {"vs_library_low", of(compared, vs_library.low)},
      {"vs_library_high", of(compared, vs_library.high)},
      {"aa_ratio", of(row.aa.has_value(), aa.value)},
      {"aa_low", of(row.aa.has_value(), aa.low)},
      {"aa_high", of(row.aa.has_value(), aa.high)},
      {"resolution_pct", when(row.aa.has_value(), [&] { return number(100 * row.resolution()); })},
      {"vs_fastest", of(ranked, vs_fastest.value)},
      {"vs_fastest_low", of(ranked, vs_fastest.low)},
      {"vs_fastest_high", of(ranked, vs_fastest.high)},
      {"fastest", when(ranked, [&] { return std::string(row.fastest ? "yes" : "no"); })},
      {"settled", when(timed, [&] { return std::string(row.samples.settled ? "yes" : "no"); })},
      {"burst_us", of(timed && row.samples.burst_us > 0, row.samples.burst_us)},
      {"joules", of(watched && row.samples.settled, row.joules())},
      {"launch_us", of(knows_launch, row.launch_us)},
      {"short", when(knows_launch, [&] { return std::string(row.is_short ? "yes" : "no"); })},
      {"grid", when(launched, [&] { return extent(largest.launch.grid); })},
      {"block", when(launched, [&] { return extent(largest.launch.block); })},
      {"registers", of(gpu && launched, largest.registers)},
      {"static_shared", of(gpu && launched, static_cast<double>(largest.static_shared))},
      {"dynamic_shared", of(launched, static_cast<double>(largest.launch.dynamic_shared))},
      {"local_bytes", of(gpu && launched, static_cast<double>(largest.local_bytes))},
      {"occupancy", of(gpu && launched, largest.occupancy)},
      {"launches", when(row.launches.size() > 1, [&] { return launches_text(row.launches, gpu); })},
      {"global_ld_requests", counted(counters.global_load.requests)},
      {"global_ld_sectors", counted(counters.global_load.units)},
      {"global_ld_ideal", counted(counters.global_load.ideal)},
      {"global_st_requests", counted(counters.global_store.requests)},
      {"global_st_sectors", counted(counters.global_store.units)},
      {"global_st_ideal", counted(counters.global_store.ideal)},
      {"global_atomic_requests", counted(counters.global_atomic.requests)},
      {"global_atomic_sectors", counted(counters.global_atomic.units)},
      {"shared_ld_requests", counted(shared_load.requests)},
      {"shared_ld_wavefronts", counted(shared_load.units)},
      {"shared_ld_ideal", counted(shared_load.ideal)},
      {"shared_st_requests", counted(shared_store.requests)},
      {"shared_st_wavefronts", counted(shared_store.units)},
      {"shared_st_ideal", counted(shared_store.ideal)},
      {"shared_atomic_requests", counted(counters.shared_atomic.requests)},
      {"shared_atomic_wavefronts", counted(counters.shared_atomic.units)},
      {"async_requests", counted(counters.shared_async.requests)},
      {"async_wavefronts", counted(counters.shared_async.units)},
      {"stmatrix_requests", counted(counters.shared_stmatrix.requests)},
      {"cluster_ld_requests", counted(counters.cluster_load.requests)},
      {"cluster_ld_wavefronts", counted(counters.cluster_load.units)},
      {"cluster_st_requests", counted(counters.cluster_store.requests)},
      {"cluster_st_wavefronts", counted(counters.cluster_store.units)},
      {"wgmma_products", counted(counters.wgmma.products)},
      {"wgmma_bytes", counted(counters.wgmma.bytes)},
      {"mean_active_lanes", of(row.counters.has_value(), counters.mean_active_lanes())},
      {"barriers", counted(counters.barriers)},
      {"mbarrier_phases", counted(counters.mbarrier_phases)},
      {"moved_bytes", of(row.counters.has_value(), counters.moved_bytes())},
  };
  const HardwareCounts hardware = row.hardware.value_or(HardwareCounts{});
  for (std::size_t i = 0; i < hardware.size(); ++i) {
    cells.emplace_back(hardware_counters()[i].column,
                       when(hardware[i].has_value(), [&] { return whole_or_short(*hardware[i]); }));
  }
  cells.insert(
      cells.end(),
      {
          {"sm_mhz", of(watched, row.sm_mhz)},
          {"power_w", of(watched, row.power_w)},
          {"throttled", of(watched, throttled_share(states))},
          {"throttle", throttle_text(states)},
          {"pin_gbps", of(gpu, device.pin_gbps)},
          {"pin_gflops", of(gpu, device.pin_gflops)},
          {"seed", fmt::format("{}", seed)},
          {"git_sha", kGitSha},
          {"code", row.kernel ? code_of(*row.kernel) : ""},
          {"build", kBuild},
          {"flags", kFlags},
          {"toolkit", device.toolkit},
          {"driver", device.driver},
          {"timestamp", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      });
  return cells;
}

const std::vector<std::string>& csv_columns() {
  static const std::vector<std::string> columns = [] {
    std::vector<std::string> names;
    for (const auto& [name, value] : csv_cells({}, {}, 0)) names.emplace_back(name);
    return names;
  }();
  return columns;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (char c : text) quoted.append(c == '"' ? 2 : 1, c);
  quoted.push_back('"');
  return quoted;
}

Csv::Csv(ResultFile& file, const DeviceInfo& device, std::uint64_t seed,
         const std::vector<std::string>& kept)
    : file_(file), device_(device), seed_(seed) {
  file_.append(fmt::format("{}\n{}", fmt::join(csv_columns(), ","), fmt::join(kept, "")));
}

void Csv::write(const Row& row) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : csv_cells(row, device_, seed_)) {
    fields.push_back(csv_field(value));
  }
  file_.append(fmt::format("{}\n", fmt::join(fields, ",")));
  file_.place();
}

}  // namespace ladder
