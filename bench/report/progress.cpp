#include "report/progress.hpp"

#include "cli/text.hpp"
#include "report/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ladder {

std::string rough_duration(double seconds) {
  if (seconds < 59.5) return fmt::format("{:.0f} s", std::ceil(seconds));
  const auto minutes = static_cast<long>(std::lround(seconds / 60));
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string long_simulation(std::span<const Group> groups, unsigned cores) {
  constexpr double kLong = 120;             // seconds
  constexpr double kWorkPerSecond = 5e7;    // FLOP and bytes of most versions' launches, one core
  constexpr double kLaunchesOfProblem = 2;  // to check it and to time it; other inputs are smaller
  const auto work = [](const Family& family, const Problem& problem, DType dtype) {
    const Cost cost = family.cost(problem, dtype);
    return cost.flops + cost.bytes();
  };
  double all = 0, most = 0;
  const Group* longest = nullptr;
  for (const Group& group : groups) {
    const Family& family = *group.family;
    const double others = static_cast<double>(family.input_sets().size() - 1);
    const double seconds = static_cast<double>(group.kernels.size()) / kWorkPerSecond *
                           (kLaunchesOfProblem * work(family, group.problem, group.dtype) +
                            others * work(family, family.smaller(group.problem), group.dtype));
    all += seconds;
    if (seconds > most) {
      most = seconds;
      longest = &group;
    }
  }
  all = std::max(most, all / cores);
  if (all < kLong) return "";
  return fmt::format(
      "Simulating this takes about {} on the CPU, {} at {} the longest. A smaller problem takes "
      "seconds; --time-limit=SECONDS ends a kernel that takes longer.\n",
      rough_duration(all), title(*longest), longest->problem.text());
}

Progress::Progress(std::FILE* out, std::size_t versions)
    : out_(out), terminal_(takes_escapes(out)), versions_(versions) {}

std::string Progress::text(const Group& group, const Step& step, double seconds) const {
  std::string line = fmt::format("[{}/{}] {} {} · {}", done_, versions_, title(group),
                                 group.problem.text(), step.doing);
  if (step.kernel) line += fmt::format(" {}", spoken(*step.kernel));
  if (done_ > 0 && done_ < versions_) {
    const auto left = static_cast<double>(versions_ - done_) / static_cast<double>(done_);
    line += fmt::format(" · about {} left", rough_duration(seconds * left));
  }
  return line;
}

void Progress::show(const Group& group, const Step& step) {
  if (!terminal_) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began_;
  const std::string line = cut(text(group, step, spent.count()), columns_of(out_).value_or(80) - 1);
  fmt::print(out_, "\r\033[K{}", line);
  std::fflush(out_);
  shown_ = true;
}

void Progress::clear() {
  if (!std::exchange(shown_, false)) return;
  fmt::print(out_, "\r\033[K");
  std::fflush(out_);
}

}  // namespace ladder
