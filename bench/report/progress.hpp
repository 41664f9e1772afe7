// How far a sweep has come: one line on the terminal, written over and over.
#pragma once

#include "measure/suite.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

namespace ladder {

/// "3 s", "4 min", "2 h 05 min".
std::string rough_duration(double seconds);

/// What to expect of groups on the host executor that take minutes, on so many cores; empty of others.
std::string long_simulation(std::span<const Group> groups, unsigned cores);

/// Counts versions, as a group of many takes longer than one of few.
class Progress {
 public:
  /// versions: how many are to be measured. Nothing is written where `out` takes no escape sequences.
  Progress(std::FILE* out, std::size_t versions);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const Group& group, const Step& step);

  /// Takes the line away, so that something else can be printed.
  void clear();

  /// So many versions are done.
  void advance(std::size_t versions) { done_ += versions; }

  /// The line, after so many seconds.
  std::string text(const Group& group, const Step& step, double seconds) const;

 private:
  std::FILE* out_;
  bool terminal_;
  std::size_t versions_, done_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

}  // namespace ladder
