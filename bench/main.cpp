// ./bench: checks and times the kernels, behind Google Benchmark's front end.
#include "console.hpp"
#include "explain.hpp"
#include "options.hpp"
#include "profile.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "reporters.hpp"
#include "resume.hpp"
#include "signals.hpp"
#include "suite.hpp"
#include "sweep.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

namespace ladder {
namespace {

Opened open_device(const Options& options) {
  if (options.backend == Backend::host) return {open_host_device(), "asked for"};
  try {
    return {open_cuda_device(options.device.value_or(0)), ""};
  } catch (const std::exception& error) {
    if (options.backend == Backend::cuda || options.device) {
      throw UsageError(fmt::format(
          "{}: {}. Without a GPU: --backend=host",
          options.device ? fmt::format("--device={}", *options.device) : "--backend=cuda",
          error.what()));
    }
    return {open_host_device(), fmt::format("no GPU: {}", error.what())};
  }
}

/// Measures groups as Google Benchmark comes to them, and hands each benchmark its own row. With
/// --benchmark_repetitions a benchmark comes again: then its group is measured again.
class Session {
 public:
  /// samples: may be null
  Session(Sweep& sweep, Csv& csv, SamplesJson* samples, Console& console, Progress& progress)
      : sweep_(sweep), csv_(csv), samples_(samples), console_(console), progress_(progress) {}

  void run(const Group& group, const std::string& name, benchmark::State& state) {
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
      if (row.timed()) seconds = row.median_us() * 1e-6;
      label = row.timed() ? "" : to_string(row.check.verdict);
    }
    for (auto _ : state) state.SetIterationTime(seconds);
    state.SetLabel(label);
  }

  /// Prints how it went. Returns the exit code.
  int finish(std::size_t groups) const {
    console_.summary(csv_.path());
    if (why_stopped_.empty()) return all_passed_ ? 0 : 1;
    fmt::print(stderr,
               "bench: {}. {} of {} problems were measured; --resume={} measures the rest.\n",
               why_stopped_, measured_.size(), groups, csv_.path());
    const int signal = remembered_signal();
    return signal ? 128 + signal : 1;
  }

 private:
  void measure(const Group& group) {
    rows_.clear();
    const Sweep::Listener listener{
        .on_step = [&](const Step& step) { progress_.show(group, step); },
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
      why_stopped_ = fmt::format("ended by signal {} ({})", remembered_signal(),
                                 strsignal(remembered_signal()));
    } catch (const std::exception& error) {
      why_stopped_ = error.what();
    }
    progress_.clear();
  }

  Sweep& sweep_;
  Csv& csv_;
  SamplesJson* samples_;
  Console& console_;
  Progress& progress_;
  const Group* group_ = nullptr;
  std::set<std::string> waiting_;  ///< benchmarks of the group whose row was not handed out yet
  std::vector<Row> rows_;
  std::set<const Group*> measured_;
  bool all_passed_ = true;
  std::string why_stopped_;  ///< before the end; empty while it goes on
};

void initialize_google_benchmark(const Options& options) {
  std::vector<char*> argv;
  for (const std::string& argument : options.passed_on)
    argv.push_back(const_cast<char*>(argument.c_str()));
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) throw UsageError(fmt::format("{} is not a flag; --help lists them.", argv[1]));
}

/// How many versions are measured: the first benchmark of a group measures all of it, and so does
/// each repetition.
std::size_t versions_to_measure(const std::vector<Group>& groups, int repetitions) {
  std::size_t versions = 0;
  for (const Group& group : groups) {
    const auto again = static_cast<std::size_t>(std::max(repetitions, 1) - 1);
    versions += group.kernels.size() * (1 + again * group.selected.size());
  }
  return versions;
}

/// Checks and times what the options select. Returns the exit code.
int sweep(Options options) {
  std::optional<EarlierRows> earlier;
  if (!options.resume.empty()) {
    earlier.emplace(options.resume);
    const std::uint64_t seed = earlier->seed().value_or(options.seed);
    if (options.seed_given && seed != options.seed) {
      throw UsageError(fmt::format("--seed={}: the rows of {} have the seed {}; leave it out.",
                                   options.seed, options.resume, seed));
    }
    options.seed = seed;
  }

  remember_signals();
  Sweep sweep([&] { return open_device(options); }, options.seed, options.seconds_per_kernel);
  const Machine& machine = sweep.machine();
  if (earlier) earlier->expect_same(machine);
  std::vector<Group> groups = select_groups(options, machine.backend);
  const std::size_t all = groups.size();
  if (earlier) std::erase_if(groups, [&](const Group& group) { return earlier->complete(group); });

  Csv csv(options.csv, machine.info, options.seed,
          earlier ? earlier->without(groups) : std::vector<std::string>{});
  std::optional<SamplesJson> samples;
  if (!options.samples.empty()) samples.emplace(options.samples);
  Console console(options.format == "console" ? stdout : stderr, machine.backend);
  console.header(machine, options.seed);
  if (options.device_info) console.device(machine);
  if (earlier) console.resumed(csv.path(), all - groups.size(), groups.size());
  benchmark::AddCustomContext("device", machine.info.name);
  benchmark::AddCustomContext("backend", machine.backend == Backend::cuda ? "cuda" : "host");

  Progress progress(stderr, versions_to_measure(groups, options.repetitions));
  Session session(sweep, csv, samples ? &*samples : nullptr, console, progress);
  for (const Group& group : groups) {
    for (const std::string& name : group.selected) {
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&group, &session, name](benchmark::State& state) { session.run(group, name, state); })
          ->UseManualTime()
          ->Iterations(1);
    }
  }
  auto display = file_reporter(options.format);
  if (!display) display = console_reporter(console);
  const auto file = options.out.empty() ? nullptr : file_reporter(options.out_format);
  if (!groups.empty()) benchmark::RunSpecifiedBenchmarks(display.get(), file.get());
  benchmark::Shutdown();
  return session.finish(groups.size());
}

int run(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (options.help) {
    fmt::print("{}", help_text());
    return 0;
  }
  if (options.list) {
    print_list(stdout);
    return 0;
  }
  initialize_google_benchmark(options);
  const bool one_process =
      !options.profile.empty() || options.explain.has_value() || options.list_names;
  if (!one_process) return sweep(options);

  const auto [device, why_host] = open_device(options);
  if (!options.profile.empty()) return profile(options, *device, argv[0]);
  if (options.explain) return explain(options, *device) ? 0 : 1;
  for (const Group& group : select_groups(options, device->backend())) {
    for (const std::string& name : group.selected) fmt::print("{}\n", name);
  }
  return 0;
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  try {
    return ladder::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n", error.what());
    return 1;
  }
}
