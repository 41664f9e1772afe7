#include "report/console.hpp"

#include "process/streams.hpp"

#include "harness/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace ladder {

std::string spoken(const Kernel& kernel) {
  std::string text = label(kernel);
  text[text.find('_')] = ' ';
  return text;
}

std::string scaled(double value, const char* unit) {
  constexpr std::array prefixes{"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  for (; value >= 1000 && i + 1 < prefixes.size(); ++i) value /= 1000;
  return fmt::format("{:.{}f} {}{}", value,
                     value < 10    ? 2
                     : value < 100 ? 1
                                   : 0,
                     prefixes[i], unit);
}

std::string title(const Group& group) {
  return fmt::format("{}{}{} {}", group.family->name, group.family->op.empty() ? "" : " ",
                     group.family->op, to_string(group.dtype));
}

namespace {

/// "cublaslt" of "v00b_cublaslt".
std::string named(const std::string& label) { return label.substr(label.find('_') + 1); }

std::string duration(double us) {
  if (us < 1e3) return fmt::format("{:.2f} µs", us);
  if (us < 1e6) return fmt::format("{:.3f} ms", us / 1e3);
  return fmt::format("{:.3f} s", us / 1e6);
}

std::string bar(double share, const Paint& paint) {
  constexpr int kWidth = 20;
  const int full = std::clamp(static_cast<int>(share * kWidth + 0.5), 0, kWidth);
  std::string done, left;
  for (int i = 0; i < full; ++i) done += "█";
  for (int i = full; i < kWidth; ++i) left += "░";
  return done + paint.faint(left);
}

/// The rate in the unit of what limits the problem on any GPU, or of the roof that is measured.
std::string speed(const Group& group, const Cost& cost, double us) {
  if (!group.family->measures) {
    const bool compute = cost.flops > 8 * cost.bytes();
    return compute ? scaled(cost.flops / us * 1e6, "FLOP/s")
                   : scaled(cost.bytes() / us * 1e6, "B/s");
  }
  const Measurement it = group.family->measures(group.dtype);
  if (!*it.unit) return "";  // its time is what it is about
  const double amount = it.amount(cost);
  if (it.roof.name().starts_with("latency")) {
    return fmt::format("{:.1f} ns/{}", 1e3 * us / amount, it.unit);
  }
  return scaled(amount / us * 1e6, fmt::format("{}/s", it.unit).c_str());
}

/// " · 120 rounds, resolution 0.12 %"
std::string rounds_text(std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (!row.timed() || !row.aa) continue;
    const std::string of =
        row.processes() > 1 ? fmt::format(" in {} processes", row.processes()) : "";
    return fmt::format(" · {} rounds{}, resolution {:.2f} %{}{}", row.samples.us.size(), of,
                       100 * row.resolution(), row.samples.settled ? ", at the power limit" : "",
                       row.is_short ? ", less than three empty launches" : "");
  }
  return "";
}

bool is_bad(Verdict verdict) { return verdict == Verdict::incorrect || verdict == Verdict::failed; }

}  // namespace

void Console::header(const Machine& machine, std::uint64_t seed) const {
  const DeviceInfo& device = machine.info;
  if (backend_ == Backend::cuda) {
    fmt::print(out_, "{}, sm_{}, {} SMs · CUDA {}, driver {} · seed {}\n", device.name,
               device.compute_capability, device.sm_count, device.toolkit, device.driver, seed);
  } else {
    fmt::print(
        out_,
        "Backend host ({}): kernels run on the host executor, on {}, which checks and counts; "
        "only a GPU can tell times. --explain says what changes from version to version. "
        "Seed {}.\n",
        machine.why_host, device.name, seed);
  }
}

void Console::device(const Machine& machine) const {
  const DeviceInfo& info = machine.info;
  auto line = [&](const char* name, const std::string& value) {
    fmt::print(out_, "  {:<24}{}\n", name, value);
  };
  line("free memory", scaled(static_cast<double>(machine.free_memory), "B"));
  if (backend_ != Backend::cuda) return;
  line("L2 cache", scaled(static_cast<double>(info.l2_bytes), "B"));
  line("pin rate, DRAM", scaled(info.pin_gbps * 1e9, "B/s"));
  line("pin rate, fp32 FMA", scaled(info.pin_gflops * 1e9, "FLOP/s"));
}

void Console::resumed(const std::string& csv, std::size_t kept, std::size_t left) const {
  fmt::print(out_, "{} of {} problems are measured already: their rows in {} are kept.\n", kept,
             kept + left, csv);
}

void Console::fault(const Group& group, const Fault& fault) const {
  const std::string whose = fault.kernel ? fmt::format(", {}", spoken(*fault.kernel)) : "";
  fmt::print(out_, "{}\n",
             paint_.bad(fmt::format("{} {}{}: {}. The sweep goes on in a fresh process.",
                                    title(group), group.problem.text(), whose, fault.reason)));
  std::fflush(out_);
}

void Console::table(const Group& group, std::span<const Row> rows) {
  if (backend_ == Backend::cuda) {
    gpu_table(group, rows);
  } else {
    fmt::print(out_, "\n{}", host_table_(rows, wants_colors(out_)));
  }
  expect_written(out_);

  const std::string name = title(group);
  auto ladder =
      std::find_if(ladders_.begin(), ladders_.end(), [&](auto& l) { return l.title == name; });
  if (ladder == ladders_.end())
    ladder = ladders_.insert(ladders_.end(), Ladder{.title = name, .best = {}, .verdicts = {}});
  for (const Row& row : rows) {
    ladder->verdicts[label(*row.kernel)].insert(row.check.verdict);
    if (row.suspect()) ladder->suspects.insert(label(*row.kernel));
  }
  const Row* best = fastest(rows);
  const double work = rows.front().cost.flops + rows.front().cost.bytes();
  if (best && work > ladder->most_work && backend_ == Backend::cuda) {
    ladder->most_work = work;
    std::vector<std::string> tied;
    for (const Row& row : rows) {
      if (row.fastest) tied.push_back(short_label(*row.kernel));
      if (row.fastest && tied.size() == 1) best = &row;  // the simplest of them
    }
    const std::string others =
        tied.size() > 1
            ? fmt::format(" (tied with {})", fmt::join(tied.begin() + 1, tied.end(), ", "))
            : "";
    ladder->best = fmt::format("{} is the fastest{} at {}, {}", spoken(*best->kernel), others,
                               group.problem.text(), speed(group, best->cost, best->us()));
    if (best->vs_library) {
      ladder->best += fmt::format(", {:.2f}x {}", best->vs_library->value, named(best->library));
    }
    if (best->has_roof()) {
      ladder->best +=
          fmt::format(", {:.0f} % of the {} roof", 100 * best->roof_share(), best->roof);
    }
    ladder->best += ". ";
  }
}

void Console::refusal(const Row& row) const {
  const std::string text = fmt::format("  {:<20} {}: {}", spoken(*row.kernel),
                                       to_string(row.check.verdict), row.check.reason);
  fmt::print(out_, "{}\n", is_bad(row.check.verdict) ? paint_.bad(text) : paint_.faint(text));
}

void Console::gpu_table(const Group& group, std::span<const Row> rows) const {
  const Row& first = rows.front();
  std::string roof;
  for (const Row& row : rows) {
    if (row.has_roof()) {
      roof = fmt::format("roof: {} {}", row.roof, speed(group, row.cost, row.roof_us));
    }
  }
  const std::string versus = first.library.empty() ? "" : "vs " + named(first.library);
  const std::string heading = fmt::format("{} {}", title(group), group.problem.text());
  const std::string about = fmt::format(
      "{} · {} · {}{}",
      group.cache == Cache::hot ? "hot" : fmt::format("{} L2", to_string(group.cache)),
      scaled(first.cost.flops, "FLOP"), scaled(first.cost.bytes(), "B"), rounds_text(rows));
  // The columns: version, time, speed, a bar with the share of the roof, the ratio to the library.
  constexpr std::size_t kBar = 21, kOver = 52, kWidth = 93;
  const std::size_t columns = columns_of(out_).value_or(kWidth);
  const bool has_bar = columns >= kWidth;
  if (has_bar) {
    fmt::print(out_, "\n{} · {}\n", paint_.bold(heading), about);
  } else {
    fmt::print(out_, "\n{}\n", paint_.bold(heading));
    for (const std::string& line : wrap(about, columns - 2)) fmt::print(out_, "  {}\n", line);
    if (!roof.empty()) fmt::print(out_, "  {}\n", std::exchange(roof, ""));
  }
  const std::size_t bar_width = kWidth - kOver - (has_bar ? 0 : kBar);
  const std::string over_bar = left(roof, bar_width - width_of(versus)) + versus;
  if (!roof.empty() || !versus.empty()) {
    fmt::print(out_, "{}{}\n", spaces(kOver),
               paint_.faint(over_bar.substr(0, over_bar.find_last_not_of(' ') + 1)));
  }
  for (const Row& row : rows) {
    if (!row.timed()) {
      refusal(row);
      continue;
    }
    std::string share, ratio;
    if (row.has_roof()) {
      share = fmt::format("{}{:>3.0f} %", has_bar ? bar(row.roof_share(), paint_) + " " : "",
                          100 * row.roof_share());
    } else if (row.vs_library) {
      share = spaces(has_bar ? kBar + 5 : 5);
    }
    if (row.vs_library) {
      const Estimate& e = *row.vs_library;
      ratio = fmt::format("{:>15}", fmt::format("{:.3f} ± {:.3f}", e.value, (e.high - e.low) / 2));
    }
    const std::string version = left(spoken(*row.kernel), 20);
    fmt::print(out_, "  {}{:>12} {:>15}  {}{}{}{}\n", row.fastest ? paint_.good(version) : version,
               duration(row.us()), speed(group, row.cost, row.us()), share, ratio,
               throttled_share(row.samples.states) > 0 ? paint_.bad("  throttled") : "",
               row.suspect() ? paint_.bad("  suspect") : "");
  }
}

void Console::aggregate(const std::string& name, double seconds) const {
  fmt::print(out_, "{:<60}{:>12}\n", name, duration(seconds * 1e6));
}

void Console::summary(const std::string& csv) const {
  fmt::print(out_, "\n");
  for (const Ladder& ladder : ladders_) {
    fmt::print(out_, "{}: {}{}\n", ladder.title, ladder.best, ladder.checks());
  }
  fmt::print(out_, "Rows: {}\n", csv);
  expect_written(out_);
}

std::string Console::Ladder::checks() const {
  std::vector<std::string> bad, unchecked;
  bool everywhere = true;
  for (const auto& [version, all] : verdicts) {
    const auto found = std::find_if(all.begin(), all.end(), is_bad);
    if (found != all.end()) {
      bad.push_back(fmt::format("{} {}", version, to_string(*found)));
    } else if (!all.contains(Verdict::passed)) {
      unchecked.push_back(version);
    } else if (all.contains(Verdict::unsupported)) {
      everywhere = false;
    }
  }
  const std::size_t n = verdicts.size() - unchecked.size();
  std::vector<std::string> sentences;
  if (!bad.empty()) {
    sentences.push_back(
        fmt::format("{} of {} did not pass: {}.", bad.size(), n, fmt::join(bad, ", ")));
  } else if (n > 0) {
    sentences.push_back(fmt::format("{} passed {}{}.",
                                    n == 1 ? "The version" : fmt::format("All {} versions", n),
                                    n == 1 ? "its checks" : "their checks",
                                    everywhere ? "" : " where the problem is supported"));
  }
  if (!suspects.empty()) {
    sentences.push_back(fmt::format("Suspect, as above the roof: {}.", fmt::join(suspects, ", ")));
  }
  if (!unchecked.empty()) {
    sentences.push_back(
        fmt::format("Not checked, as unsupported: {}.", fmt::join(unchecked, ", ")));
  }
  return fmt::format("{}", fmt::join(sentences, " "));
}

void print_list(std::FILE* out, const Options& options) {
  struct Entry {
    std::string idea;
    bool gpu_only;
  };
  struct Listing {
    std::set<std::string_view> ops;
    std::set<DType> dtypes;
    std::map<std::string, Entry> versions;
  };
  const std::set<std::string> selected = select_versions(options);
  std::map<std::string_view, Listing> listings;
  auto add = [&](const std::vector<Kernel>& kernels) {
    for (const Kernel& kernel : kernels) {
      if (!selected.contains(full_name(kernel))) continue;
      Listing& listing = listings[kernel.family];
      if (*kernel.op) listing.ops.insert(kernel.op);
      listing.dtypes.insert(kernel.dtype);
      Entry& entry =
          listing.versions.emplace(spoken(kernel), Entry{kernel.version.idea, true}).first->second;
      if (kernel.backend == Backend::host) entry.gpu_only = false;
    }
  };
  add(registered_kernels());
  add(open_host_device()->kernels());
  for (const auto& [name, listing] : listings) {
    std::vector<std::string> dtypes;
    for (DType dtype : listing.dtypes) dtypes.emplace_back(to_string(dtype));
    fmt::print(out, "{}{}{} · {}\n", name, listing.ops.empty() ? "" : ": ",
               fmt::join(listing.ops, ", "), fmt::join(dtypes, ", "));
    for (const auto& [version, entry] : listing.versions) {
      fmt::print(out, "  {:<20} {}{}\n", version, entry.idea, entry.gpu_only ? "  (GPU only)" : "");
    }
  }
}

}  // namespace ladder
