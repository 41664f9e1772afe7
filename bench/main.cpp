// ./bench: checks and times the kernels, behind Google Benchmark's front end.
#include "clock_lock.hpp"
#include "console.hpp"
#include "explain.hpp"
#include "options.hpp"
#include "profile.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "reporters.hpp"
#include "resume.hpp"
#include "session.hpp"
#include "signals.hpp"
#include "suite.hpp"
#include "sweep.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

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

/// Google Benchmark opens the file only after the header was printed.
void expect_writable(const std::string& path) {
  if (!std::ofstream(path)) {
    throw UsageError(
        fmt::format("--benchmark_out={}: {}; choose another path.", path, std::strerror(errno)));
  }
}

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
  Sweep sweep([&] { return open_device(options); }, options.seed, options.seconds_per_kernel,
              options.sampling);
  const Machine& machine = sweep.machine();
  if (earlier) earlier->expect_same(machine);
  options.draw_problems(machine.backend);
  std::vector<Group> groups = select_groups(options, machine.backend);
  const std::size_t all = groups.size();
  if (earlier) std::erase_if(groups, [&](const Group& group) { return earlier->complete(group); });

  if (!options.out.empty()) expect_writable(options.out);
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
  Options options = parse_options(argc, argv);
  if (options.help) {
    fmt::print("{}", help_text());
    return 0;
  }
  if (options.list) {
    print_list(stdout);
    return 0;
  }
  initialize_google_benchmark(options);
  std::optional<ClockLock> clock_lock;
  if (options.lock_clocks && !options.list_names) {
    clock_lock.emplace(*options.lock_clocks, options.device.value_or(0));
  }
  const bool one_process =
      !options.profile.empty() || options.explain.has_value() || options.list_names;
  if (!one_process) return sweep(options);

  const auto [device, why_host] = open_device(options);
  options.draw_problems(device->backend());
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
