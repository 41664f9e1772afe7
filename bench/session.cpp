#include "session.hpp"

#include "process/memory.hpp"
#include "process/signals.hpp"
#include "process/streams.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <system_error>

namespace ladder {

void Session::run(const Group& group, const std::string& name, benchmark::State& state) {
  const bool has_row = &group == group_ && waiting_.erase(name) > 0;
  if (!has_row && why_stopped_.empty()) {  // the first benchmark of its group, or a repetition
    measure(group);
    waiting_.erase(name);
  }
  std::string label = "not measured", why = label;
  double seconds = 0;
  for (const Row& row : rows_) {
    if (group.name_of(*row.kernel) != name) continue;
    if (row.timed()) seconds = row.us() * 1e-6;
    label = row.timed() ? "" : to_string(row.check.verdict);
    why = row.timed() ? "" : fmt::format("{}: {}", label, row.check.reason);
  }
  if (!why.empty()) state.SkipWithError(why.c_str());
  for (auto _ : state) state.SetIterationTime(seconds);
  state.SetLabel(label);
}

void Session::measure(const Group& group) {
  group_ = &group;
  waiting_ = {group.selected.begin(), group.selected.end()};
  rows_.clear();
  const Sweep::Listener listener{.on_step = [&](const Step& step) { progress_.show(group, step); },
                                 .on_fault =
                                     [&](const Group& at, const Fault& fault) {
                                       progress_.clear();
                                       console_.fault(at, fault);
                                     }};
  try {
    const std::vector<Row> rows = sweep_.measure(group, listener);
    progress_.clear();
    for (const Row& row : rows) {
      csv_.write(row);
      if (samples_) samples_->write(row);
      all_passed_ = all_passed_ && !row.bad();
      any_checked_ = any_checked_ || row.check.verdict != Verdict::unsupported;
    }
    rows_ = rows;
    measured_.insert(&group);
    console_.table(group, rows);
    progress_.advance(rows.size());
    why_stopped_ = sweep_.device_gone();
  } catch (const Interrupted&) {
    why_stopped_ =
        fmt::format("ended by signal {} ({})", remembered_signal(), strsignal(remembered_signal()));
  } catch (const std::exception& error) {
    why_stopped_ = reason(error);
  }
  progress_.clear();
}

bool Session::keep(ResultFile& file, const std::string& text) {
  try {
    file.append(text);
    if (!measured_.empty()) file.place();
    return true;
  } catch (const std::exception& error) {
    why_stopped_ = reason(error);
    return false;
  }
}

void Session::seal(ResultFile& file) {
  try {
    file.sync();
  } catch (const std::exception& error) {
    stop(reason(error));
  }
}

void Session::stop(const std::string& why) {
  if (why_stopped_.empty()) why_stopped_ = why;
}

int Session::finish(std::size_t groups) {
  try {
    if (csv_.placed() || groups == 0) console_.summary(csv_.path());
    expect_no_lack();
  } catch (const std::exception& error) {
    stop(reason(error));
  }
  if (why_stopped_.empty() && measured_.size() < groups) {
    why_stopped_ = "Google Benchmark's flags left problems out";
  }
  if (!why_stopped_.empty()) {
    const std::string& csv = csv_.path();
    std::error_code error;
    complain(fmt::format("{}. {} of {} problems were measured; {}", why_stopped_, measured_.size(),
                         groups,
                         !csv_.placed() && !std::filesystem::exists(csv, error)
                             ? fmt::format("{} was not written.", csv)
                         : !csv_.placed() ? fmt::format("{} is as it was.", csv)
                         : measured_.size() == groups || !csv_.is_file()
                             ? fmt::format("their rows are in {}.", csv)
                             : fmt::format("--resume={} measures the rest.", csv)));
    const int signal = remembered_signal();
    return signal ? 128 + signal : 1;
  }
  if (groups > 0 && !any_checked_) {
    complain("nothing was checked: every version that is selected is unsupported here.");
    return 1;
  }
  return all_passed_ ? 0 : 1;
}

}  // namespace ladder
