#include "explain/trace.hpp"

#include "cli/text.hpp"
#include "explain/explain.hpp"
#include "measure/suite.hpp"
#include "report/result_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace ladder {
namespace {

constexpr std::size_t kMostTraces = 64;
constexpr std::uintptr_t kBankBytes = 128;  // of all banks together

/// A number for each different value, in the order of their first appearance.
template <class T>
class Numbering {
 public:
  std::size_t operator()(const T& value) {
    const auto [at, fresh] = numbers_.try_emplace(value, values_.size());
    if (fresh) values_.push_back(value);
    return at->second;
  }
  const std::vector<T>& values() const { return values_; }

 private:
  std::map<T, std::size_t> numbers_;
  std::vector<T> values_;
};

/// Where addresses of a recording are: in an array of the problem, or in shared memory, where static
/// variables come first, as on a GPU. The first address that a step touches there is in bank 0.
class Places {
 public:
  static constexpr int kShared = -1, kElsewhere = -2;  // a __device__ variable, say

  Places(Workload& workload, const Workload::Prepared& prepared, const Recording& recording)
      : recording_(recording) {
    for (std::size_t i = 0; i < workload.buffers().size(); ++i) {
      const Array& array = workload.arrays()[i];
      const char* role = array.role == Role::input    ? "input"
                         : array.role == Role::output ? "output"
                                                      : "in place";
      add(array.name, to_string(array.dtype), role, workload.buffers()[i]);
    }
    for (const Buffer& workspace : prepared.workspaces) add("workspace", "", "scratch", workspace);
    for (const Buffer& state : prepared.states) add("state", "", "state", state);
    std::uintptr_t last = 0;
    const auto end = recording.static_shared + recording.static_shared_bytes;
    const auto see = [&](std::uintptr_t address, std::uintptr_t bytes) {
      if (address < recording.static_shared || address >= end) return;
      first_static_ = std::min(first_static_, address);
      last = std::max(last, address + bytes);
    };
    for (const RecordedStep& step : recording.steps) {
      see(step.object, sizeof(std::uint64_t));
      if (step.space != Space::shared) continue;
      for (const std::uintptr_t address : step.addresses) see(address, step.width);
    }
    if (last > 0) {
      dynamic_begins_ = (last - first_static_ + kBankBytes - 1) / kBankBytes * kBankBytes;
    }
  }

  /// The place, and how far an address is from its beginning.
  std::pair<int, std::int64_t> of(std::uintptr_t address) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const auto& [begin, bytes] = ranges_[i];
      if (address - begin < bytes) return {static_cast<int>(i), offset(address, begin)};
    }
    if (address - recording_.static_shared < recording_.static_shared_bytes) {
      return {kShared, offset(address, first_static_)};
    }
    constexpr std::uintptr_t kMostShared = 256 << 10;
    if (address - recording_.dynamic_shared < kMostShared) {
      return {kShared, offset(address, recording_.dynamic_shared) +
                           static_cast<std::int64_t>(dynamic_begins_)};
    }
    return {kElsewhere, static_cast<std::int64_t>(address % kBankBytes)};
  }

  /// "[place, first, distance, times, …]": a lane's address after the other.
  std::string json(const std::vector<std::uintptr_t>& addresses) const {
    const auto [place, first] = of(addresses.front());
    std::vector<std::int64_t> numbers{place, first};
    for (std::size_t i = 1; i < addresses.size(); ++i) {
      const std::int64_t distance = offset(addresses[i], addresses[i - 1]);
      if (numbers.size() > 2 && numbers[numbers.size() - 2] == distance) {
        ++numbers.back();
      } else {
        numbers.insert(numbers.end(), {distance, 1});
      }
    }
    return fmt::format("[{}]", fmt::join(numbers, ","));
  }

  std::string json() const { return fmt::format("[{}]", fmt::join(described_, ",")); }

 private:
  static std::int64_t offset(std::uintptr_t address, std::uintptr_t begin) {
    return static_cast<std::int64_t>(address) - static_cast<std::int64_t>(begin);
  }

  void add(const std::string& name, const char* dtype, const char* role, const Buffer& buffer) {
    ranges_.emplace_back(reinterpret_cast<std::uintptr_t>(buffer.data()), buffer.bytes());
    described_.push_back(fmt::format(R"({{"name":{},"dtype":"{}","role":"{}","bytes":{}}})",
                                     json_string(name), dtype, role, buffer.bytes()));
  }

  const Recording& recording_;
  std::vector<std::pair<std::uintptr_t, std::size_t>> ranges_;
  std::vector<std::string> described_;
  std::uintptr_t first_static_ = UINTPTR_MAX;
  std::uintptr_t dynamic_begins_ = 0;
};

const char* name_of(Space space, Access access) {
  const bool global = space == Space::global;
  switch (access) {
    case Access::load:
      return global ? "ld" : "lds";
    case Access::store:
      return global ? "st" : "sts";
    case Access::atomic:
      return global ? "atom" : "atoms";
    case Access::stmatrix:
      return "stmatrix";
    case Access::cluster_load:
      return "ldc";
    case Access::pushed:
      return "stc";
    default:
      return "cpa";
  }
}

const char* name_of(Note note) {
  switch (note) {
    case Note::cp_async_commit:
      return "cp.async commit";
    case Note::cp_async_wait:
      return "cp.async wait";
    case Note::mbarrier_arrive:
      return "arrive";
    case Note::mbarrier_wait:
      return "wait";
    case Note::mbarrier_passed:
      return "passed";
    case Note::mbarrier_phase:
      return "phase";
    case Note::bulk_load:
      return "bulk load";
    case Note::bulk_landed:
      return "landed";
    case Note::bulk_store:
      return "bulk store";
    case Note::bulk_commit:
      return "bulk commit";
    case Note::bulk_wait:
      return "bulk wait";
    case Note::wgmma:
      return "wgmma";
    case Note::wgmma_commit:
      return "wgmma commit";
    case Note::wgmma_wait:
      return "wgmma wait";
    case Note::wgmma_passed:
      return "wgmma passed";
    case Note::named_arrive:
      return "named arrive";
    case Note::named_wait:
      return "named wait";
    case Note::named_passed:
      return "named passed";
  }
  return "";
}

bool is_of_named_barrier(Note note) {
  return note == Note::named_arrive || note == Note::named_wait || note == Note::named_passed;
}

/// Steps as arrays: ["l", launch] where one begins; ["q", what, warp, place, lanes, width, units,
/// ideal, addresses, sources of a cp.async]; ["c", collective, warp, place, lanes]; ["b", place] for a
/// barrier; ["n", note, warp, place, lanes, object, detail]. A place is a number of "places", an object where an
/// mbarrier is in shared memory or a named barrier's number; -1 is none.
std::string json(const Recording& recording, const Places& places,
                 Numbering<std::pair<std::size_t, int>>& lines, Numbering<std::string>& files) {
  std::vector<std::string> out;
  std::optional<unsigned> launch;
  for (const RecordedStep& step : recording.steps) {
    if (launch != step.launch) {
      launch = step.launch;
      out.push_back(fmt::format(R"(["l",{}])", step.launch));
    }
    const bool known = !step.file.empty() && step.line > 0;
    const int line = known ? static_cast<int>(lines({files(step.file), step.line})) : -1;
    switch (step.kind) {
      case RecordedStep::Kind::request:
        out.push_back(fmt::format(R"(["q","{}",{},{},{},{},{},{},{}{}])",
                                  name_of(step.space, step.access), step.warp, line, step.lanes,
                                  step.width, step.counted.units, step.counted.ideal,
                                  places.json(step.addresses),
                                  step.sources.empty() ? "" : "," + places.json(step.sources)));
        break;
      case RecordedStep::Kind::collective:
        out.push_back(
            fmt::format(R"(["c","{}",{},{},{}])", step.collective, step.warp, line, step.lanes));
        break;
      case RecordedStep::Kind::barrier:
        out.push_back(fmt::format(R"(["b",{}])", line));
        break;
      case RecordedStep::Kind::note:
        std::int64_t object = -1;
        if (is_of_named_barrier(step.note)) {
          object = static_cast<std::int64_t>(step.object);
        } else if (step.object != 0) {
          object = places.of(step.object).second;
        }
        out.push_back(fmt::format(R"(["n","{}",{},{},{},{},{}])", name_of(step.note), step.warp,
                                  line, step.lanes, object, step.detail));
        break;
    }
  }
  return fmt::format("[\n{}]", fmt::join(out, ",\n"));
}

std::string source_json(const std::string& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return fmt::format(R"({{"path":{},"text":{}}})", json_string(file), json_string(text));
}

std::string json(const Row& row, Workload& workload, const Workload::Prepared& prepared,
                 const Recording& recording, const RecordingChoice& choice) {
  const Places places(workload, prepared, recording);
  Numbering<std::string> files;
  files(row.kernel->file);  // first, as it is what the reader came for
  Numbering<std::pair<std::size_t, int>> lines;
  const std::string steps = json(recording, places, lines, files);
  std::vector<std::string> launches, sources, numbers;
  for (const RecordedLaunch& launch : recording.launches) {
    launches.push_back(
        fmt::format(R"({{"grid":[{}],"block":[{}],"dynamic_shared":{},"cluster":{}}})",
                    fmt::join(launch.grid, ","), fmt::join(launch.block, ","),
                    launch.dynamic_shared, launch.cluster));
  }
  for (const std::string& file : files.values()) sources.push_back(source_json(file));
  for (const auto& [file, line] : lines.values()) {
    numbers.push_back(fmt::format("[{},{}]", file, line));
  }
  return fmt::format(
      R"({{"explain":
{},
"launches":[{}],
"block":[{}],
"warps":[{}],
"left_out":{},
"buffers":{},
"files":[{}],
"places":[{}],
"steps":{}}})",
      explain_json({&row, 1}), fmt::join(launches, ","), fmt::join(choice.block, ","),
      fmt::join(choice.warps, ","), recording.left_out, places.json(), fmt::join(sources, ",\n"),
      fmt::join(numbers, ","), steps);
}

/// The trace of one kernel; empty if it did not pass, and then row says why.
std::string trace_one(Row& row, const Group& group, const Options& options, Device& device) {
  if (const Support support = supports(*row.kernel, group.problem, device.info()); !support.ok) {
    row.check = {.verdict = Verdict::unsupported, .reason = support.reason};
    return "";
  }
  const Family& family = *group.family;
  if (const std::string lack = memory_shortfall(family, group.problem, group.dtype, device);
      !lack.empty()) {
    row.check = {.verdict = Verdict::failed, .reason = lack};
    return "";
  }
  try {
    const auto workload =
        family.open(group.problem, group.dtype, family.input_sets().front(), options.seed, device);
    row.check = check(*row.kernel, *workload, device);
    if (row.check.verdict != Verdict::passed) return "";
    workload->reset_results(0);
    const Workload::Prepared prepared = workload->prepare(*row.kernel);
    const auto recording = device.record(*row.kernel, prepared.call, options.recording);
    row.counters = recording->counters;
    return json(row, *workload, prepared, *recording, options.recording);
  } catch (const std::exception& error) {
    row.check = {.verdict = Verdict::failed, .reason = error.what()};
    return "";
  }
}

}  // namespace

bool trace(const Options& options, Device& device) {
  if (device.backend() != Backend::host) {
    throw UsageError("--trace records the host executor, not a GPU: add --backend=host.");
  }
#if defined(__SANITIZE_ADDRESS__)
  throw UsageError(
      "--trace: this build's AddressSanitizer takes the counters' place; use another.");
#endif
  const std::vector<Group> groups = select_groups(options, device);
  std::size_t selected = 0;
  for (const Group& group : groups) selected += group.selected.size();
  if (selected > kMostTraces) {
    throw UsageError(fmt::format(
        "--trace={}: {} kernels and problems are selected, at most {} can be traced at a "
        "time; narrow --benchmark_filter.",
        options.trace, selected, kMostTraces));
  }
  ResultFile file({"--trace", options.trace});
  std::size_t traced = 0;
  bool all_passed = true;
  std::vector<std::string> refusals;
  for (const Group& group : groups) {
    for (const Kernel* kernel : group.kernels) {
      const std::string name = group.name_of(*kernel);
      if (std::ranges::find(group.selected, name) == group.selected.end()) continue;
      Row row = unmeasured_row(group, *kernel);
      const std::string text = trace_one(row, group, options, device);
      if (text.empty()) {
        refusals.push_back(
            fmt::format("{}: {}: {}", name, to_string(row.check.verdict), row.check.reason));
        all_passed = all_passed && row.check.verdict == Verdict::unsupported;
        continue;
      }
      file.append((traced++ == 0 ? "[\n" : ",\n") + text);
    }
  }
  if (traced == 0) {
    throw UsageError(fmt::format("Nothing was traced: {}.", refusals.front()));
  }
  file.append("\n]\n");
  file.place();
  file.sync();
  std::FILE* const out = options.trace == kStdout ? stderr : stdout;
  for (const std::string& refusal : refusals) fmt::print(out, "{}\n", refusal);
  fmt::print(out, "{}: {} {}\n", file.path(), traced, traced == 1 ? "kernel" : "kernels");
  return all_passed;
}

}  // namespace ladder
