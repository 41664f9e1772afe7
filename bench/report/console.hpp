// What ./bench prints: a table per group, and at the end a sentence per ladder.
#pragma once

#include "cli/text.hpp"
#include "measure/suite.hpp"
#include "measure/worker.hpp"

#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ladder {

/// "v05 tile2d" of "v05_tile2d".
std::string spoken(const Kernel& kernel);

/// "gemm f32", "elementwise add f32".
std::string title(const Group& group);

/// A value with the prefix that leaves at most four digits: 137 G, 64.6 T.
std::string scaled(double value, const char* unit);

class Console {
 public:
  /// A table of what the host executor has checked and counted, in colours or not.
  using HostTable = std::function<std::string(std::span<const Row> rows, bool colors)>;

  /// out: stdout, or stderr when stdout carries Google Benchmark's JSON or CSV. host_table: of that backend.
  Console(std::FILE* out, Backend backend, HostTable host_table = {})
      : out_(out),
        backend_(backend),
        host_table_(std::move(host_table)),
        paint_(wants_colors(out)) {}

  /// The line that says which backend runs, and why.
  void header(const Machine& machine, std::uint64_t seed) const;
  /// The attributes and pin rates of --device-info.
  void device(const Machine& machine) const;
  /// How much of an earlier CSV is kept.
  void resumed(const std::string& csv, std::size_t kept, std::size_t left) const;
  void fault(const Group& group, const Fault& fault) const;
  /// Throws std::runtime_error, as summary() does, when what was printed could not be written.
  void table(const Group& group, std::span<const Row> rows);
  void aggregate(const std::string& name, double seconds) const;
  void summary(const std::string& csv) const;

 private:
  struct Ladder {
    std::string title, best;  ///< best: the sentence's middle, of the problem with the most work
    double most_work = -1;
    std::map<std::string, std::set<Verdict>> verdicts;  ///< by version
    std::set<std::string> suspects{};

    /// What was checked, what passed, what is suspect, and what was not checked.
    std::string checks() const;
  };
  void gpu_table(const Group& group, std::span<const Row> rows) const;
  void refusal(const Row& row) const;

  std::FILE* out_;
  Backend backend_;
  HostTable host_table_;
  Paint paint_;
  std::vector<Ladder> ladders_;
};

/// --list: the versions of which the options select a benchmark, on either backend. Throws UsageError when there are
/// none.
void print_list(std::FILE* out, const Options& options);

}  // namespace ladder
