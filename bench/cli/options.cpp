#include "cli/options.hpp"

#include "cli/nearest.hpp"
#include "cli/problems.hpp"
#include "cli/text.hpp"
#include "process/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <random>
#include <set>
#include <utility>

namespace ladder {
namespace {

constexpr int kLeastSamples = 6;  // trimming leaves four of them for an interval
constexpr int kMostSms = 1024;
constexpr int kMostProcesses = 100;

std::string dtype_names() {
  std::vector<const char*> names;
  for (const DType dtype : kDTypes) names.push_back(to_string(dtype));
  return fmt::to_string(fmt::join(names, ", "));
}

std::string near_dtypes(const std::string& name) {
  std::set<std::string> names;
  for (const DType dtype : kDTypes) names.insert(to_string(dtype));
  return near_to(name, names);
}

template <class T>
T number(std::string_view flag, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{}={}: a whole number is expected.", flag, text));
  }
  return value;
}

/// "0,1,7"
std::vector<unsigned> numbers(std::string_view flag, const std::string& text) {
  std::vector<unsigned> all;
  for (const std::string& one : split(text)) all.push_back(number<unsigned>(flag, one));
  return all;
}

/// A number above 0 and at most `most`; `what` it is.
double positive(std::string_view flag, std::string_view text, double most, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0 && value <= most)) {
    throw UsageError(
        fmt::format("{}={}: {} above 0 and at most {} is expected.", flag, text, what, most));
  }
  return value;
}

/// Google Benchmark takes other texts for one of these.
const std::string& one_of(std::string_view flag, const std::string& text,
                          std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), text) == known.end()) {
    throw UsageError(
        fmt::format("{}={}: one of {} is expected.", flag, text, fmt::join(known, ", ")));
  }
  return text;
}

/// Google Benchmark's flags that are only passed on, and the check of a value: on a wrong one it
/// prints its own help and ends with exit code 0, or aborts. Not those of how long it measures, as rounds tell that.
const std::map<std::string, void (*)(const std::string& flag, const std::string& value)>&
google_flags() {
  using Text = const std::string&;
  static constexpr auto yes_or_no = [](Text f, Text v) {
    if (!v.empty()) one_of(f, v, {"true", "false", "yes", "no", "on", "off", "1", "0"});
  };
  static const std::map<std::string, void (*)(Text, Text)> flags{
      {"--benchmark_enable_random_interleaving", yes_or_no},
      {"--benchmark_report_aggregates_only", yes_or_no},
      {"--benchmark_display_aggregates_only", yes_or_no},
      {"--benchmark_counters_tabular", yes_or_no},
      {"--benchmark_color",
       [](Text f, Text v) {
         one_of(f, v, {"auto", "true", "false", "yes", "no", "on", "off"});
       }},
      {"--benchmark_time_unit",
       [](Text f, Text v) {
         one_of(f, v, {"ns", "us", "ms", "s"});
       }},
      {"--benchmark_context",
       [](Text f, Text v) {
         for (const std::string& pair : split(v)) {
           const std::size_t equals = pair.find('=');
           if (equals == std::string::npos || equals == 0) {
             throw UsageError(fmt::format("{}={}: KEY=VALUE,… is expected.", f, v));
           }
           const std::string key = pair.substr(0, equals);
           if (key == "device" || key == "backend") {
             throw UsageError(
                 fmt::format("{}={}: {} is there already; choose another key.", f, v, key));
           }
         }
       }},
      {"--benchmark_perf_counters",
       [](Text f, Text v) {
         if (v.empty()) return;
         throw UsageError(fmt::format(
             "{}={}: the process that measures is another one, whose counters Google Benchmark "
             "does not read; leave it out.",
             f, v));
       }},
      {"--v", [](Text f, Text v) { number<int>(f, v); }},
  };
  return flags;
}

Explanation parse_explanation(const std::string& text) {
  if (text == "table") return Explanation::table;
  if (text == "lines") return Explanation::lines;
  if (text == "json") return Explanation::json;
  throw UsageError(
      fmt::format("--explain={}: one of table (the default), lines, json is expected.", text));
}

/// The names of families that take problems of the user's own, and what these are. Not the roofs:
/// each of their operations has problems of another kind.
std::map<std::string, std::string> families_with_flag() {
  std::map<std::string, std::string> found, fields;
  for (const Family& family : families()) {
    const std::string name(family.name), of = help_of(family.fields);
    if (fields.emplace(name, of).second) found[name] = family.problem_help();
    if (fields.at(name) != of) found[name].clear();
  }
  std::erase_if(found, [](const auto& one) { return one.second.empty(); });
  return found;
}

}  // namespace

std::vector<std::string> Options::on_stdout() const {
  std::vector<std::string> flags;
  if (format != "console") flags.push_back("--benchmark_format=" + format);
  for (const auto& [flag, path] :
       {std::pair{"--csv", csv}, {"--samples", samples}, {"--benchmark_out", out}}) {
    if (path == kStdout) flags.push_back(fmt::format("{}={}", flag, path));
  }
  return flags;
}

bool Options::selects(std::span<const std::string> names) const {
  const auto matches = [&](const std::string& name) { return pattern_->matches(name); };
  return std::ranges::any_of(names, matches) != inverted_;
}

std::vector<Problem> Options::problems_of(const Family& family, Backend on) const {
  const auto chosen = problems.find(std::string(family.name));
  std::vector<Problem> parsed;
  if (chosen == problems.end()) {
    if (counters && on == Backend::cuda) parsed = family.bench_problems(Backend::host);
    for (Problem& problem : family.bench_problems(on)) {
      if (std::ranges::find(parsed, problem) == parsed.end()) parsed.push_back(std::move(problem));
    }
    return parsed;
  }
  for (const std::string& text : chosen->second) {
    if (auto problem = family.parse(text)) parsed.push_back(*std::move(problem));
  }
  return parsed;
}

void Options::draw_problems(Backend on) {
  for (const auto& [family, count] : std::exchange(random_problems_, {})) {
    auto& chosen = problems.at(family);
    chosen = ladder::draw_problems(operations_of(family), {std::move(chosen), count}, on, seed);
  }
}

Options parse_options(int argc, char** argv) {
  Options options;
  options.seed = std::random_device{}();
  options.passed_on.emplace_back(argv[0]);
  bool chooses_steps = false;
  const auto pass_on = [&](const std::string& flag, const std::string& value) {
    options.passed_on.push_back(value.empty() ? flag : fmt::format("{}={}", flag, value));
  };

  bool filter_given = false, form_given = false, dry_run = false;
  using Text = const std::string&;
  std::map<std::string, std::function<void(Text flag, Text value)>> flags{
      {"--benchmark_filter",
       [&](Text, Text v) {
         options.filter = v == "all" ? "." : v;
         filter_given = true;
       }},
      {"--backend",
       [&](Text, Text v) {
         if (v == "cuda")
           options.backend = Backend::cuda;
         else if (v == "host")
           options.backend = Backend::host;
         else if (v != "auto")
           throw UsageError(fmt::format("--backend={}: one of auto, cuda, host is expected.", v));
       }},
      {"--device", [&](Text f, Text v) { options.device = number<int>(f, v); }},
      {"--sms",
       [&](Text f, Text v) {
         options.sms = number<int>(f, v);
         if (*options.sms < 1 || *options.sms > kMostSms) {
           throw UsageError(
               fmt::format("{}={}: a whole number from 1 to {} is expected.", f, v, kMostSms));
         }
       }},
      {"--csv", [&](Text, Text v) { options.csv = v; }},
      {"--samples", [&](Text, Text v) { options.samples = v; }},
      {"--cache",
       [&](Text, Text v) {
         if (v == "cold")
           options.caches = {Cache::cold};
         else if (v == "hot")
           options.caches = {Cache::hot};
         else if (v == "dirty")
           options.caches = {Cache::dirty};
         else if (v == "both")
           options.caches = {Cache::cold, Cache::hot};
         else
           throw UsageError(
               fmt::format("--cache={}: one of cold, dirty, hot, both is expected.", v));
       }},
      {"--seed",
       [&](Text f, Text v) {
         options.seed = number<std::uint64_t>(f, v);
         options.seed_given = true;
       }},
      {"--resume", [&](Text, Text v) { options.resume = v; }},
      {"--time-limit",
       [&](Text f, Text v) {
         options.seconds_per_kernel = number<unsigned>(f, v);
         if (*options.seconds_per_kernel == 0) {
           throw UsageError("--time-limit=0: at least a second is expected.");
         }
       }},
      {"--min-samples",
       [&](Text f, Text v) {
         Sampling& sampling = options.sampling;
         sampling.min_samples = number<int>(f, v);
         if (sampling.min_samples < kLeastSamples || sampling.min_samples > sampling.max_samples) {
           throw UsageError(fmt::format("{}={}: a whole number from {} to {} is expected.", f, v,
                                        kLeastSamples, sampling.max_samples));
         }
       }},
      {"--target",
       [&](Text f, Text v) {
         options.sampling.target = positive(f, v, 100, "a percentage") / 100;
       }},
      {"--max-seconds",
       [&](Text f, Text v) {
         options.sampling.max_seconds = positive(f, v, 86400, "a number of seconds");
       }},
      {"--processes",
       [&](Text f, Text v) {
         options.processes = number<int>(f, v);
         if (options.processes < 1 || options.processes > kMostProcesses) {
           throw UsageError(fmt::format("{}={}: a whole number from 1 to {} is expected.", f, v,
                                        kMostProcesses));
         }
       }},
      {"--lock-clocks",
       [&](Text f, Text v) {
         options.lock_clocks = number<unsigned>(f, v);
         if (*options.lock_clocks == 0) {
           throw UsageError("--lock-clocks=0: a clock in MHz is expected.");
         }
       }},
      {"--dtype",
       [&](Text, Text v) {
         options.dtypes.clear();
         for (const std::string& name : split(v)) {
           const auto dtype = parse_dtype(name);
           if (!dtype)
             throw UsageError(fmt::format("--dtype={}: one of {} is expected{}.", name,
                                          dtype_names(), near_dtypes(name)));
           options.dtypes.push_back(*dtype);
         }
       }},
      {"--profile",
       [&](Text f, Text v) {
         options.profile = split(v);
         if (std::ranges::count(options.profile, "") > 0) {  // which would match every name
           throw UsageError(fmt::format("{}={}: NAME|REGEX,… is expected.", f, v));
         }
       }},
      {"--trace", [&](Text, Text v) { options.trace = v; }},
      {"--trace-block",
       [&](Text f, Text v) {
         const auto index = numbers(f, v);
         if (index.size() > options.recording.block.size()) {
           throw UsageError(
               fmt::format("{}={}: a block's index X, X,Y or X,Y,Z is expected.", f, v));
         }
         std::ranges::copy(index, options.recording.block.begin());
         chooses_steps = true;
       }},
      {"--trace-warps",
       [&](Text f, Text v) {
         options.recording.warps = numbers(f, v);
         chooses_steps = true;
       }},
      {"--asm",
       [&](Text f, Text v) {
         options.assembly = split(v);
         if (std::ranges::count(options.assembly, "") > 0) {
           throw UsageError(fmt::format("{}={}: NAME|REGEX,… is expected.", f, v));
         }
       }},
      {"--asm-form",
       [&](Text f, Text v) {
         one_of(f, v, {"lines", "ptx", "sass", "all", "json"});
         options.asm_form = v == "lines"  ? AsmForm::lines
                            : v == "ptx"  ? AsmForm::ptx
                            : v == "sass" ? AsmForm::sass
                            : v == "all"  ? AsmForm::all
                                          : AsmForm::json;
         form_given = true;
       }},
      {"--benchmark_format",
       [&](Text f, Text v) {
         options.format = one_of(f, v, {"console", "json", "csv"});
       }},
      {"--benchmark_min_time",
       [](Text f, Text v) {
         if (v.ends_with('x')) {
           number<unsigned>(f, v.substr(0, v.size() - 1));
         } else {
           positive(f, v.substr(0, v.size() - v.ends_with('s')), 86400, "a number of seconds");
         }
       }},
      {"--benchmark_min_warmup_time",
       [](Text f, Text v) { positive(f, v, 86400, "a number of seconds"); }},
      {"--benchmark_out", [&](Text, Text v) { options.out = v; }},
      {"--benchmark_out_format",
       [&](Text f, Text v) {
         options.out_format = one_of(f, v, {"json", "csv"});
       }},
      {"--benchmark_repetitions",
       [&](Text f, Text v) {
         options.repetitions = number<int>(f, v);
         if (options.repetitions < 1) {
           throw UsageError(fmt::format("{}={}: at least 1 is expected.", f, v));
         }
         pass_on(f, v);
       }},
  };
  for (const auto& [name, help] : families_with_flag()) {
    flags["--" + name] = [&options, name = name](Text f, Text v) {
      const Problems problems = parse_problems(f, v);
      options.problems[name] = problems.named;
      options.random_problems_[name] = problems.random;
    };
  }
  const std::map<std::string, bool*> switches{
      {"--help", &options.help},         {"-h", &options.help},
      {"--version", &options.version},   {"--benchmark_dry_run", &dry_run},
      {"--list", &options.list},         {"--device-info", &options.device_info},
      {"--counters", &options.counters}, {"--benchmark_list_tests", &options.list_names}};
  const auto refuse = [&](const std::string& argument, const std::string& flag) {
    if (!argument.starts_with('-')) {
      throw UsageError(fmt::format(
          "{} is not a flag; --benchmark_filter={} selects by name, --help lists the flags.",
          argument, argument));
    }
    std::vector<std::string> known;
    for (const auto& [name, read] : flags) known.push_back(name);
    for (const auto& [name, on] : switches) known.push_back(name);
    for (const auto& [name, check] : google_flags()) known.push_back(name);
    known.push_back("--explain");
    throw UsageError(
        fmt::format("{} is not a flag{}; --help lists them.", argument, near_flag(flag, known)));
  };

  const auto read = [&](const std::string& argument) {
    const std::size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (const auto on = switches.find(flag); on != switches.end()) {
      *on->second = value != "false" && value != "0";
    } else if (flag == "--explain") {
      options.explain = parse_explanation(equals == std::string::npos ? "table" : value);
    } else if (const auto known = flags.find(flag); known != flags.end()) {
      if (value.empty()) throw UsageError(fmt::format("{} needs a value: {}=…", flag, flag));
      known->second(flag, value);
    } else if (const auto google = google_flags().find(flag); google != google_flags().end()) {
      google->second(flag, value);
      pass_on(flag, value);
    } else {
      refuse(argument, flag);
    }
  };
  // The environment first, so that the command line overrides it.
  const auto read_environment = [&](const std::string& flag) {
    if (!flag.starts_with("--benchmark_")) return;
    std::string name = flag.substr(2);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const std::string value = benchmark_variable(name);
    if (value.empty()) return;
    try {
      read(fmt::format("{}={}", flag, value));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{} in the environment: {}", name, error.what()));
    }
  };
  for (const auto& [flag, parse] : flags) read_environment(flag);
  for (const auto& [flag, on] : switches) read_environment(flag);
  for (const auto& [flag, check] : google_flags()) read_environment(flag);
  for (int i = 1; i < argc; ++i) read(argv[i]);

  if (dry_run) {  // the checks, and as few rounds as there may be
    options.sampling = {.min_samples = kLeastSamples, .target = 1, .max_seconds = 1e-3};
    options.repetitions = 1;
    pass_on("--benchmark_repetitions", "1");
  }
  if (const auto several = options.on_stdout(); several.size() > 1) {
    throw UsageError(fmt::format("{} and {} both go to stdout; name a file for one of them.",
                                 several[0], several[1]));
  }
  if (!options.resume.empty()) {
    if (options.csv != Options{}.csv || !options.samples.empty() || !options.out.empty() ||
        options.repetitions > 1) {
      throw UsageError(
          "--resume completes its CSV and writes nothing else; leave out --csv, --samples, "
          "--benchmark_out and --benchmark_repetitions.");
    }
    options.csv = options.resume;
  }
  if (options.explain &&
      (options.csv != Options{}.csv || !options.samples.empty() || !options.profile.empty() ||
       options.device_info || !options.resume.empty() || options.lock_clocks ||
       options.format != Options{}.format || !options.out.empty() || options.repetitions > 1)) {
    throw UsageError(
        "--explain prints counts and nothing else; leave out --csv, --samples, --resume, "
        "--profile, --device-info, --lock-clocks, --benchmark_format, --benchmark_out and "
        "--benchmark_repetitions.");
  }
  if (options.counters &&
      (options.explain || !options.samples.empty() || !options.profile.empty() ||
       !options.assembly.empty() || !options.trace.empty() || options.device_info ||
       !options.resume.empty() || options.format != Options{}.format || !options.out.empty() ||
       options.repetitions > 1)) {
    throw UsageError(
        "--counters prints counters and writes its CSV; leave out --explain, --samples, --resume, "
        "--profile, --asm, --trace, --device-info, --benchmark_format, --benchmark_out and "
        "--benchmark_repetitions.");
  }
  if (options.counters && options.csv == kStdout) {
    throw UsageError("--csv=-: --counters prints its tables there; name a file.");
  }
  if (options.trace.empty() && chooses_steps) {
    throw UsageError("--trace-block and --trace-warps say what --trace=PATH records; add it.");
  }
  if (!options.trace.empty() &&
      (options.explain || options.csv != Options{}.csv || !options.samples.empty() ||
       !options.profile.empty() || !options.assembly.empty() || options.device_info ||
       !options.resume.empty() || options.lock_clocks || options.format != Options{}.format ||
       !options.out.empty() || options.repetitions > 1)) {
    throw UsageError(
        "--trace writes its file and nothing else; leave out --explain, --csv, --samples, "
        "--resume, "
        "--profile, --asm, --device-info, --lock-clocks, --benchmark_format, --benchmark_out and "
        "--benchmark_repetitions.");
  }
  if (!options.assembly.empty() &&
      (options.csv != Options{}.csv || !options.samples.empty() || !options.profile.empty() ||
       options.explain || options.device_info || !options.resume.empty() || options.lock_clocks ||
       options.format != Options{}.format || !options.out.empty() || options.repetitions > 1)) {
    throw UsageError(
        "--asm prints what the compiler made and nothing else; leave out --csv, --samples, "
        "--resume, "
        "--profile, --explain, --device-info, --lock-clocks, --benchmark_format, --benchmark_out "
        "and "
        "--benchmark_repetitions.");
  }
  if (options.seconds_per_kernel && (!options.profile.empty() || !options.trace.empty() ||
                                     !options.assembly.empty() || options.counters)) {
    throw UsageError(
        "--time-limit ends kernels of a sweep and of --explain; leave it out with --profile, "
        "--trace, --asm and --counters.");
  }
  if (form_given && options.assembly.empty()) {
    throw UsageError("--asm-form is a form of --asm: add --asm=NAME.");
  }
  if (options.lock_clocks && options.backend == Backend::host) {
    throw UsageError(fmt::format(
        "--lock-clocks={}: the host executor has no GPU's clocks to lock; leave it out.",
        *options.lock_clocks));
  }
  if (options.sms && options.backend != Backend::host) {
    throw UsageError(fmt::format(
        "--sms={}: only the host executor's SMs can be chosen: add --backend=host.", *options.sms));
  }
  if (options.device_info) {
    options.filter = "^roofs/";
  } else if (!filter_given && !options.problems.empty()) {
    std::vector<std::string> names;
    for (const auto& [family, texts] : options.problems) names.push_back(family);
    options.filter = fmt::format("^({})/", fmt::join(names, "|"));
  }
  options.inverted_ = options.filter.starts_with('-');
  options.pattern_ = Pattern::parse(options.filter.substr(options.inverted_));
  if (!options.pattern_) {
    throw UsageError(
        fmt::format("--benchmark_filter={} is not a regular expression.", options.filter));
  }
  return options;
}

std::string help_text() {
  std::string problems;
  for (const auto& [name, help] : families_with_flag()) {
    problems += fmt::format("  {:<30}{}\n", fmt::format("--{}=A,B,…", name), help);
  }
  return fmt::format(
      R"(./bench checks kernels and times them: every version that the filter selects, beside the vendor's.

What to run
  --benchmark_filter=REGEX      names to run: family[/op]/dtype/version/problem; -REGEX inverts. `best` in
                                the place of a version is the one that the library takes for a problem:
                                softmax/bf16/best, gemm.*/best; also in --profile and --asm
  --benchmark_list_tests        print the names and stop
  --list                        print the families, their versions and ideas, of what the filter selects
  --version                     print which commit this is and how it was built, and stop
  --device-info                 print the device's attributes and measure its roofs
  --dtype=TYPE,…                all (default), or some of
                                {}
Problems of your own, instead of the built-in ones; without a filter only of their families
{}  In place of a number: [first:last], [first:last:step], [first:last:*factor] or [a,b,…]; last counts
  In place of a problem: random:N, N problems by --seed. Each number is log-uniform, from 1 to the
                                largest in a built-in problem; work and memory are at most the
                                largest built-in problem's, the bytes at least 1/16 of the smallest's
How to run
  --backend=auto|cuda|host      auto (default): the GPU if there is one, else the host executor
  --device=N                    GPU number (default 0); of several, the first
  --sms=N                       with --backend=host: the number of SMs that kernels find (default 2);
                                some launch as many blocks, so 132 gives an H200's counts
  --cache=cold|dirty|hot|both   L2 full of other data before each sample, read (default) or written;
                                launches back to back; the first and the last
  --seed=N                      seed of the random inputs and problems (default: a new one, printed)
  --time-limit=SECONDS          a kernel that runs for longer has failed, and the others go on (default
                                60 on a GPU, none on the host executor); of --explain, too
  --lock-clocks=MHZ             hold the GPU's SM clock there, as root; reset at every exit
  --profile=NAME|REGEX,…        launch what is selected once, checked, each in an NVTX range of its
                                name, for a profiler; a NAME alone means its last problem; prints the
                                lines for ncu and nsys
  --counters                    read ten of the GPU's own counters instead of taking times, and print
                                them beside the host executor's counts; both are columns of the CSV

When the versions of a problem have been measured long enough, on a GPU
  --min-samples=N               no sooner than after N rounds, {} to {} (default {})
  --target=PERCENT              when the 95 % intervals of their ratios reach no further than this to
                                either side (default {:g})
  --max-seconds=S               or when their rounds have taken this long (default {:g})
  --processes=N                 N processes measure them, one after the other (default 1); the intervals
                                then tell how far processes are apart, too: 3 for what is published

Why a version is faster, without a GPU
  --explain[=table|lines|json]  count, on the host executor, what the kernels do to memory, and print
                                a table per ladder, their sources with the counts, or JSON; no CSV
  --trace=PATH                  record, on the host executor, what warps 0 and 1 of block 0 do, step by
                                step, as JSON; scripts/stepper.py makes a page of it that plays it
  --trace-block=X,Y,Z           another block
  --trace-warps=N,…             other warps of it
  --asm=NAME|REGEX,…            what the compiler made of kernels, from the compiled file: registers,
                                spills, occupancy and what limits it, also at other block sizes; the
                                instructions of every loop and source line
  --asm-form=lines|ptx|sass|all|json
                                counts below the lines (default), or the instructions too, or JSON

Results
  --csv=PATH                    (default results.csv; an existing file is kept as PATH.1.bak,
                                PATH.2.bak, …, as is every file that a flag names). - is stdout, as for
                                --samples, --benchmark_out and --trace; tables then go to stderr
  --resume=PATH                 complete the CSV of a sweep that was cut short: its groups of versions
                                that all have their rows are kept, the rest is measured
  --samples=PATH                every row's samples in microseconds, as JSON; scripts/compare.py takes
                                them from results.json beside results.csv
  --benchmark_format=console|json|csv, --benchmark_out=PATH, --benchmark_out_format=json|csv,
  --benchmark_repetitions=N, --benchmark_dry_run and Google Benchmark's other flags are taken, also as
  BENCHMARK_FILTER=… and so on in the environment. Its min_time and min_warmup_time change nothing, as
  the flags above say how long is measured. In its JSON and CSV a version without a time has an
  error_message, and cpu_time is real_time.
)",
      dtype_names(), problems, kLeastSamples, Sampling{}.max_samples, Sampling{}.min_samples,
      100 * Sampling{}.target, Sampling{}.max_seconds);
}

}  // namespace ladder
