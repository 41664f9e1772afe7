// A sweep as Google Benchmark goes through it: measured, written, printed.
#pragma once

#include "measure/sweep.hpp"
#include "report/console.hpp"
#include "report/csv.hpp"
#include "report/progress.hpp"
#include "report/samples_json.hpp"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace ladder {

/// Measures groups as Google Benchmark comes to them, and hands each benchmark its own row. With
/// --benchmark_repetitions a benchmark comes again: then its group is measured again. A signal, or a
/// file that cannot be written, ends the measuring; the benchmarks that are left get no time.
class Session {
 public:
  /// samples: may be null
  Session(Sweep& sweep, Csv& csv, SamplesJson* samples, Console& console, Progress& progress)
      : sweep_(sweep), csv_(csv), samples_(samples), console_(console), progress_(progress) {}

  void run(const Group& group, const std::string& name, benchmark::State& state);

  /// Appends to a file, which is put in place once something was measured. Returns whether more can be
  /// written; if not, the measuring ends.
  bool keep(ResultFile& file, const std::string& text);

  /// Waits until a file is on the disk.
  void seal(ResultFile& file);

  /// Ends the measuring, for a reason.
  void stop(const std::string& why);

  /// Prints how it went; groups: how many there were. Returns the exit code: 0 if all of them were
  /// measured, some version was checked, none failed or is suspect, and all that was printed could be written.
  int finish(std::size_t groups);

 private:
  void measure(const Group& group);

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
  bool any_checked_ = false;
  std::string why_stopped_;  ///< before the end; empty while it goes on
};

}  // namespace ladder
