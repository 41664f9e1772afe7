// The command line of ./bench: its own flags; Google Benchmark's are passed on.
#pragma once

#include "cli/pattern.hpp"
#include "harness/family.hpp"
#include "harness/timer.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

/// A mistake of the user's: one sentence that says what is wrong and the way out.
struct UsageError : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The path that stands for stdout.
inline constexpr std::string_view kStdout = "-";

/// What --explain prints: a table per ladder, the kernels' sources with counts, or JSON.
enum class Explanation { table, lines, json };

/// What --asm prints: counts of instructions below the source lines, or the instructions too.
enum class AsmForm { lines, ptx, sass, all, json };

struct Options {
  bool help = false;
  bool version = false;            ///< --version: which commit this is, and how it was built
  bool device_info = false;        ///< --device-info: attributes, pin rates and measured roofs
  bool list = false;               ///< --list: families, versions, ideas
  bool list_names = false;         ///< --benchmark_list_tests: every name that the filter selects
  std::string filter = ".";        ///< a regular expression; a leading '-' inverts it; see best.hpp
  std::optional<Backend> backend;  ///< empty: auto
  std::optional<int> device;       ///< GPU number; empty: the first
  std::optional<int> sms;          ///< --sms, of the host executor; empty: its own number
  std::string csv = "results.csv";
  std::string samples;  ///< --samples: a file for all samples; empty: none
  std::vector<Cache> caches{Cache::cold};
  std::uint64_t seed = 0;                    ///< of the inputs
  bool seed_given = false;                   ///< --seed, or else it is random
  std::string resume;                        ///< --resume: a CSV to be completed; empty: none
  std::optional<double> seconds_per_kernel;  ///< --time-limit; empty: the backend's own
  Sampling sampling;                         ///< --min-samples, --target, --max-seconds
  int processes = 1;                         ///< --processes, that measure each group
  std::optional<unsigned> lock_clocks;       ///< --lock-clocks: MHz
  int repetitions = 1;                       ///< Google Benchmark's
  std::vector<DType> dtypes{std::begin(kDTypes), std::end(kDTypes)};
  /// Texts by family, instead of its own.
  std::map<std::string, std::vector<std::string>> problems;
  std::vector<std::string> profile;    ///< names and patterns of kernels to launch once
  bool counters = false;               ///< --counters: the GPU's own counters instead of times
  std::vector<std::string> assembly;   ///< --asm: names and patterns of kernels
  AsmForm asm_form = AsmForm::lines;   ///< --asm-form
  std::optional<Explanation> explain;  ///< count instead of timing
  std::string trace;                   ///< --trace: a file for the steps; empty: none
  RecordingChoice recording;           ///< --trace-block, --trace-warps

  std::string format = "console", out, out_format = "json";  ///< Google Benchmark's
  std::vector<std::string> passed_on;  ///< to Google Benchmark, program name first

  /// The flags by which results, not tables, go to stdout, as "--csv=-".
  std::vector<std::string> on_stdout() const;

  /// Whether the filter selects a benchmark that has these names.
  bool selects(std::span<const std::string> names) const;

  /// Those of an operation: the user's, as far as it has them, or its own on that backend; with
  /// --counters also its own on the host executor, which counts them too.
  std::vector<Problem> problems_of(const Family& family, Backend on) const;

  /// Adds the random problems that were asked for. They depend on the backend and the seed, which
  /// may both become known late. Throws UsageError.
  void draw_problems(Backend on);

 private:
  friend Options parse_options(int argc, char** argv);
  std::map<std::string, std::size_t> random_problems_;  ///< how many are still to be drawn
  std::optional<Pattern> pattern_;                      ///< set by parse_options
  bool inverted_ = false;
};

/// Throws UsageError.
Options parse_options(int argc, char** argv);

/// The text of --help.
std::string help_text();

}  // namespace ladder
