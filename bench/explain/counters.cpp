#include "explain/counters.hpp"

#include "explain/checked_launch.hpp"
#include "explain/columns.hpp"
#include "report/console.hpp"
#include "report/csv.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ladder {
namespace {

/// What the host executor counts may be so much more work than the largest of the family's problems
/// for it: some seconds.
constexpr double kMoreHostWork = 16;

const char* const kCountersLegend =
    R"(global    requests, each one instruction of one warp; then the 32-byte sectors that they touch
shared    wavefronts, the passes through the 32 banks
DRAM      bytes that went to and from it
issue     cycles in which a scheduler of an SM issued an instruction
tensor    cycles in which the tensor cores were busy
warps     resident warps of the most that an SM holds (achieved occupancy)
host      the same by the host executor, of problems that are small enough for it
!         the two differ (docs/host-executor.md knows why some do))";

bool counted_by_hardware(const Row& row) {
  return row.hardware && row.check.verdict == Verdict::passed;
}

bool is_small(const Family& family, const Problem& problem, DType dtype) {
  const Cost cost = family.cost(problem, dtype);
  return std::ranges::any_of(family.bench_problems(Backend::host), [&](const Problem& own) {
    const Cost most = family.cost(own, dtype);
    return cost.flops <= kMoreHostWork * most.flops && cost.bytes() <= kMoreHostWork * most.bytes();
  });
}

/// None if the kernel does not run there, or not rightly.
std::optional<Counters> host_counts(const Kernel& kernel, const Problem& problem, Device& host,
                                    std::uint64_t seed) {
  const auto same = std::ranges::find(host.kernels(), full_name(kernel),
                                      [](const Kernel& one) { return full_name(one); });
  if (same == host.kernels().end()) return {};
  std::optional<Counters> counters;
  const CheckResult result = launch_checked(
      *same, problem, seed, host, [&](const Call& call) { counters = host.count(*same, call); });
  return result.verdict == Verdict::passed ? counters : std::nullopt;
}

void print_head(const Device& device, std::uint64_t seed, const Paint& paint) {
  fmt::print(
      "Counters of {}, read by CUPTI · seed {}\n"
      "Of all kernels of a version, launched once for each pass; no times are taken.\n{}\n",
      device.info().name, seed, paint.faint(kCountersLegend));
}

struct Lines {
  std::vector<Column> columns;
  std::span<const Row> rows;

  /// The counters of a version, in one or two columns of numbers; all of them have a host's count or
  /// none has.
  template <class Text>
  void add(const std::string& title, std::initializer_list<HardwareCount> which, Text text) {
    Column column{title, {}};
    for (const Row& row : rows) {
      if (!counted_by_hardware(row)) continue;
      std::vector<std::string> gpu, host;
      bool differs = false;
      for (const HardwareCount counter : which) {
        const std::optional<double> value = (*row.hardware)[counter];
        const auto counterpart = hardware_counters()[counter].host;
        std::optional<double> other;
        if (row.counters && counterpart) other = static_cast<double>(counterpart(*row.counters));
        const bool unequal = value && other && *value != *other;
        differs = differs || unequal;
        const auto shown = [&](std::optional<double> n) -> std::string {
          return !n ? "–" : unequal ? fmt::format("{:.0f}", *n) : text(*n);
        };
        gpu.push_back(shown(value));
        host.push_back(counterpart ? shown(other) : "");
      }
      const auto cell = [&](const std::vector<std::string>& texts, bool bad) -> Cell {
        return {texts.size() > 1 ? texts.front() : "", texts.back(), bad};
      };
      column.cells.push_back(cell(gpu, differs));
      if (row.counters) column.cells.push_back(cell(host, false));
    }
    columns.push_back(std::move(column));
  }
};

}  // namespace

std::vector<Row> count_by_hardware(const Group& group, Device& device, Device& host,
                                   std::uint64_t seed) {
  std::vector<Row> rows;
  const bool small = is_small(*group.family, group.problem, group.dtype);
  for (const Kernel* kernel : group.kernels) {
    Row& row = rows.emplace_back(unmeasured_row(group, *kernel));
    row.check = launch_checked(*kernel, group.problem, seed, device, [&](const Call& call) {
      row.hardware = device.count_by_hardware(*kernel, call, group.cache);
      row.launches = device.launches();
    });
    if (row.check.verdict != Verdict::passed) row.hardware.reset();
    if (row.hardware && small) row.counters = host_counts(*kernel, group.problem, host, seed);
  }
  return rows;
}

std::string counters_table(std::span<const Row> rows, bool colors) {
  const Paint paint(colors);
  Lines lines{{}, rows};
  const auto whole = [](double n) { return count(static_cast<std::uint64_t>(n)); };
  const auto bytes = [](double n) { return scaled(n, "B"); };
  const auto percent = [](double n) { return fmt::format("{:.0f} %", n); };
  lines.add("global ld", {kGlobalLoadRequests, kGlobalLoadSectors}, whole);
  lines.add("global st", {kGlobalStoreRequests, kGlobalStoreSectors}, whole);
  lines.add("shared ld", {kSharedLoadWavefronts}, whole);
  lines.add("shared st", {kSharedStoreWavefronts}, whole);
  lines.add("DRAM", {kDramBytes}, bytes);
  lines.add("issue", {kIssuePercent}, percent);
  lines.add("tensor", {kTensorPercent}, percent);
  lines.add("warps", {kWarpsPercent}, percent);

  constexpr std::size_t kSideWidth = 6;  // of "  GPU" and "  host"
  std::size_t label_width = 0;
  for (const Row& row : rows) label_width = std::max(label_width, width_of(spoken(*row.kernel)));
  const auto room = [&] { return kWidth - 2 - kSideWidth - label_width; };
  const std::vector<std::string> set = set_columns(lines.columns, room(), paint);
  for (const std::string& line : set_columns(lines.columns, room(), Paint(false))) {
    label_width = std::min(label_width, kWidth - 2 - kSideWidth - width_of(line));
  }
  std::string text =
      fmt::format("{} · L2 {}\n", paint.bold(title(rows.front())), to_string(rows.front().cache));
  if (set.size() > 1) text += spaces(2 + label_width + kSideWidth) + paint.faint(set[0]) + "\n";
  std::size_t next = 1;
  for (const Row& row : rows) {
    text += "  " + paint.bold(left(cut(spoken(*row.kernel), label_width), label_width));
    if (!counted_by_hardware(row)) {
      text += "  " + refusal(row, label_width + 4, paint);
      continue;
    }
    text += "  GPU " + set[next++] + "\n";
    if (row.counters) text += spaces(2 + label_width) + "  host" + set[next++] + "\n";
  }
  return text;
}

bool show_counters(const Options& options, Device& device, const std::string& why_host) {
  if (device.backend() == Backend::host) {
    throw UsageError(
        fmt::format("--counters reads a GPU's own counters, and this is the host executor ({}); "
                    "--explain prints its counts.",
                    why_host));
  }
  const std::vector<Group> groups = select_groups(options, device);
  ResultFile file({"--csv", options.csv});
  Csv csv(file, device.info(), options.seed);
  set_host_sm_count(device.info().sm_count);
  const std::unique_ptr<Device> host = open_host_device();
  const bool colors = wants_colors(stdout);
  bool all_passed = true, any_counted = false;
  for (const Group& group : groups) {
    const std::vector<Row> rows = count_by_hardware(group, device, *host, options.seed);
    for (const Row& row : rows) {
      csv.write(row);
      const Verdict verdict = row.check.verdict;
      all_passed = all_passed && verdict != Verdict::incorrect && verdict != Verdict::failed;
      any_counted = any_counted || counted_by_hardware(row);
    }
    if (&group == &groups.front()) print_head(device, options.seed, Paint(colors));
    fmt::print("\n{}", counters_table(rows, colors));
    std::fflush(stdout);
  }
  file.sync();
  fmt::print("\nRows: {}\n", csv.path());
  return all_passed && any_counted;
}

}  // namespace ladder
