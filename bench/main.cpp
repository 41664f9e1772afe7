// ./bench: checks and times the kernels, behind Google Benchmark's front end.
#include "asm/asm.hpp"
#include "cli/options.hpp"
#include "explain/counters.hpp"
#include "explain/explain.hpp"
#include "explain/profile.hpp"
#include "explain/trace.hpp"
#include "ladder_git_sha.hpp"
#include "measure/clock_lock.hpp"
#include "measure/suite.hpp"
#include "measure/sweep.hpp"
#include "process/memory.hpp"
#include "process/signals.hpp"
#include "process/streams.hpp"
#include "report/console.hpp"
#include "report/csv.hpp"
#include "report/progress.hpp"
#include "report/provenance.hpp"
#include "report/reporters.hpp"
#include "report/resume.hpp"
#include "report/samples_json.hpp"
#include "session.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace ladder {
namespace {

Opened open_device(const Options& options) {
  if (options.sms) set_host_sm_count(*options.sms);
  if (options.backend == Backend::host) return {open_host_device(), "asked for"};
  try {
    return {open_cuda_device(options.device.value_or(0), Placement::own_pages), ""};
  } catch (const std::bad_alloc&) {
    throw;
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

Opened open_with_best(const Options& options) {
  Opened opened = open_device(options);
  opened.best = best_benchmarks(options, *opened.device);
  return opened;
}

/// Its file is written by us, and the filter is ours alone, whatever the environment says.
void initialize_google_benchmark(const Options& options) {
  static std::vector<std::string> arguments;  // whose first it reads again when it reports
  arguments = options.passed_on;
  arguments.push_back(options.out.empty() ? "--benchmark_out=" : "--benchmark_out=/dev/null");
  arguments.push_back("--benchmark_list_tests=false");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  benchmark::Initialize(&argc, argv.data(), [] {  // or it would end the program with exit code 0
    throw UsageError("Google Benchmark does not take the value of a --benchmark_ flag.");
  });
  if (argc > 1) throw UsageError(fmt::format("{} is not a flag; --help lists them.", argv[1]));
  // Where it cannot read about the CPU, it warns or ends the program: now, not in the sweep.
  benchmark::CPUInfo::Get();
  forgive_lack();
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
  std::vector<Output> outputs{{options.resume.empty() ? "--csv" : "--resume", options.csv}};
  if (!options.samples.empty()) outputs.push_back({"--samples", options.samples});
  if (!options.out.empty()) outputs.push_back({"--benchmark_out", options.out});
  expect_distinct(outputs);
  ResultFile csv_file(outputs.front());
  std::optional<ResultFile> samples_file, out_file;
  if (!options.samples.empty()) samples_file.emplace(Output{"--samples", options.samples});
  if (!options.out.empty()) out_file.emplace(Output{"--benchmark_out", options.out});

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
  Sweep sweep([&] { return open_with_best(options); }, options.seed, options.seconds_per_kernel,
              options.sampling, options.processes);
  const Machine& machine = sweep.machine();
  if (earlier) earlier->expect_same(machine, options.processes);
  options.draw_problems(machine.backend);
  std::vector<Group> groups = select_groups(options, machine.backend, machine.best);
  const std::size_t all = groups.size();
  if (earlier) std::erase_if(groups, [&](const Group& group) { return earlier->complete(group); });

  sweep.plan(groups);

  Csv csv(csv_file, machine.info, options.seed,
          earlier ? earlier->without(groups) : std::vector<std::string>{});
  std::optional<SamplesJson> samples;
  if (samples_file) samples.emplace(*samples_file);
  std::FILE* const tables = options.on_stdout().empty() ? stdout : stderr;
  Console console(tables, machine.backend, checked_table);
  console.header(machine, options.seed);
  if (machine.backend == Backend::host)
    fmt::print(tables, "{}", checked_legend(wants_colors(tables)));
  if (options.device_info) console.device(machine);
  if (earlier) console.resumed(csv.path(), all - groups.size(), groups.size());
  if (machine.backend == Backend::host) {
    fmt::print(tables, "{}", long_simulation(groups, sweep.cores()));
  }
  expect_written(tables);
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
  auto display = file_reporter(options.format, [](const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  });
  if (!display) display = console_reporter(console);
  std::unique_ptr<benchmark::BenchmarkReporter> file;
  if (out_file) {
    file = file_reporter(options.out_format,
                         [&](const std::string& text) { return session.keep(*out_file, text); });
  }
  try {
    if (!groups.empty()) benchmark::RunSpecifiedBenchmarks(display.get(), file.get(), ".");
  } catch (const std::exception& error) {
    session.stop(reason(error));
  }
  benchmark::Shutdown();
  session.seal(csv_file);
  if (samples_file) session.seal(*samples_file);
  if (out_file) session.seal(*out_file);
  return session.finish(groups.size());
}

int run(int argc, char** argv) {
  const bool out_is_open = open_standard_streams();
  Options options = parse_options(argc, argv);
  const bool one_process = !options.profile.empty() || !options.assembly.empty() ||
                           options.explain.has_value() || !options.trace.empty() ||
                           options.counters || options.list_names;
  const bool sweeps = !options.help && !options.version && !options.list && !one_process;
  if (!out_is_open && (!sweeps || !options.on_stdout().empty())) {
    throw UsageError("stdout, where this is to be printed, is closed; redirect it to a file.");
  }
  if (options.help) {
    fmt::print("{}", help_text());
    return 0;
  }
  if (options.version) {
    fmt::print("Kernel Ladder, commit {}, build type {}{}{}\n", kGitSha, kBuild,
               *kFlags ? ", " : "", kFlags);
    return 0;
  }
  if (options.list) {
    print_list(stdout, options);
    return 0;
  }
  initialize_google_benchmark(options);
  std::optional<ClockLock> clock_lock;
  if (options.lock_clocks && !options.list_names) {
    clock_lock.emplace(*options.lock_clocks, options.device.value_or(0));
  }
  if (sweeps) return sweep(options);
  if (options.explain) return explain(options, [&] { return open_with_best(options); }) ? 0 : 1;

  const Opened opened = open_device(options);
  Device& device = *opened.device;
  options.draw_problems(device.backend());
  if (!options.profile.empty()) return profile(options, device, argv[0]);
  if (options.counters) return show_counters(options, device, opened.why_host) ? 0 : 1;
  if (!options.trace.empty()) return trace(options, device) ? 0 : 1;
  if (!options.assembly.empty()) return show_assembly(options, device) ? 0 : 1;
  for (const Group& group : select_groups(options, device)) {
    for (const std::string& name : group.selected) fmt::print("{}\n", name);
  }
  return 0;
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  static bool runs = true;
  std::atexit([] {
    if (!runs) return;
    ladder::complain("exit() was called, by a launch or a library; what was left is not done.");
    std::fflush(nullptr);
    std::_Exit(1);
  });
  int exit_code = 1;
  try {
    exit_code = ladder::run(argc, argv);
    if (exit_code == 0) ladder::expect_written(stdout);
  } catch (const std::exception& error) {
    ladder::complain(ladder::reason(error));
    exit_code = 1;
  }
  runs = false;
  return exit_code;
}
