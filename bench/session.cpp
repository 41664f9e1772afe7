#include "session.hpp"

#include "signals.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>

namespace ladder {

void Session::run(const Group& group, const std::string& name, benchmark::State& state) {
  if (why_stopped_.empty() && (&group != group_ || !waiting_.erase(name))) {
    group_ = &group;
    waiting_ = {group.selected.begin(), group.selected.end()};
    waiting_.erase(name);
    measure(group);
  }
  double seconds = std::numeric_limits<double>::quiet_NaN();
  std::string label = "not measured";
  for (const Row& row : rows_) {
    if (group.name_of(*row.kernel) != name) continue;
    if (row.timed()) seconds = row.us() * 1e-6;
    label = row.timed() ? "" : to_string(row.check.verdict);
  }
  for (auto _ : state) state.SetIterationTime(seconds);
  state.SetLabel(label);
}

void Session::measure(const Group& group) {
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
      const bool bad =
          row.check.verdict == Verdict::incorrect || row.check.verdict == Verdict::failed;
      all_passed_ = all_passed_ && !bad;
    }
    console_.table(group, rows);
    rows_ = rows;
    measured_.insert(&group);
    progress_.advance(rows.size());
    why_stopped_ = sweep_.device_gone();
  } catch (const Interrupted&) {
    why_stopped_ =
        fmt::format("ended by signal {} ({})", remembered_signal(), strsignal(remembered_signal()));
  } catch (const std::exception& error) {
    why_stopped_ = error.what();
  }
  progress_.clear();
}

int Session::finish(std::size_t groups) const {
  console_.summary(csv_.path());
  if (why_stopped_.empty()) return all_passed_ ? 0 : 1;
  fmt::print(stderr, "bench: {}. {} of {} problems were measured; --resume={} measures the rest.\n",
             why_stopped_, measured_.size(), groups, csv_.path());
  const int signal = remembered_signal();
  return signal ? 128 + signal : 1;
}

}  // namespace ladder
