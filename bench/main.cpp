// ./bench: checks and times the kernels, behind Google Benchmark's front end.
#include "console.hpp"
#include "explain.hpp"
#include "options.hpp"
#include "profile.hpp"
#include "report.hpp"
#include "reporters.hpp"
#include "suite.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <set>

namespace ladder {
namespace {

struct Opened {
  std::unique_ptr<Device> device;
  std::string why_host;
};

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
  Session(Device& device, Csv& csv, SamplesJson* samples, Console& console, std::uint64_t seed)
      : device_(device),
        csv_(csv),
        samples_(samples),
        console_(console),
        seed_(seed),
        roofs_(device, seed) {}

  void run(const Group& group, const std::string& name, benchmark::State& state) {
    if (&group != group_ || !waiting_.erase(name)) {
      group_ = &group;
      waiting_ = {group.selected.begin(), group.selected.end()};
      waiting_.erase(name);
      rows_ = measure(group, device_, seed_, roofs_);
      for (const Row& row : rows_) {
        csv_.write(row);
        if (samples_) samples_->write(row);
        const bool bad =
            row.check.verdict == Verdict::incorrect || row.check.verdict == Verdict::failed;
        all_passed_ = all_passed_ && !bad;
      }
      console_.table(group, rows_);
    }
    for (const Row& row : rows_) {
      if (group.name_of(*row.kernel) != name) continue;
      for (auto _ : state) {
        state.SetIterationTime(row.timed() ? row.median_us() * 1e-6
                                           : std::numeric_limits<double>::quiet_NaN());
      }
      if (!row.timed()) state.SetLabel(to_string(row.check.verdict));
    }
  }
  bool all_passed() const { return all_passed_; }

 private:
  Device& device_;
  Csv& csv_;
  SamplesJson* samples_;
  Console& console_;
  std::uint64_t seed_;
  Roofs roofs_;
  const Group* group_ = nullptr;
  std::set<std::string> waiting_;  ///< benchmarks of the group whose row was not handed out yet
  std::vector<Row> rows_;
  bool all_passed_ = true;
};

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
  const auto [device, why_host] = open_device(options);
  if (!options.profile.empty()) return profile(options, *device, argv[0]);

  if (options.explain) return explain(options, *device) ? 0 : 1;

  const std::vector<Group> groups = select_groups(options, *device);
  if (options.list_names) {
    for (const Group& group : groups) {
      for (const std::string& name : group.selected) fmt::print("{}\n", name);
    }
    return 0;
  }

  if (!options.out.empty()) expect_writable(options.out);
  Csv csv(options.csv, device->info(), options.seed);
  std::optional<SamplesJson> samples;
  if (!options.samples.empty()) samples.emplace(options.samples);
  Console console(options.format == "console" ? stdout : stderr, device->backend());
  console.header(device->info(), why_host, options.seed);
  if (options.device_info) console.device(*device);
  benchmark::AddCustomContext("device", device->info().name);
  benchmark::AddCustomContext("backend", device->backend() == Backend::cuda ? "cuda" : "host");

  Session session(*device, csv, samples ? &*samples : nullptr, console, options.seed);
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
  benchmark::RunSpecifiedBenchmarks(display.get(), file.get());
  benchmark::Shutdown();
  console.summary(csv.path());
  return session.all_passed() ? 0 : 1;
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
