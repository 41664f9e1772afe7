// The problems that a family's flag asks for: one by one, as ranges, or at random.
#pragma once

#include "harness/family.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ladder {

/// What --gemm=… asks for.
struct Problems {
  std::vector<std::string> named;  ///< as the family writes them, none twice
  std::size_t random = 0;          ///< how many others are to be drawn
};

/// The problems that a text stands for, which may hold ranges in brackets, in nvbench's notation:
/// [first:last], [first:last:step], [a,b,c], and with a factor [first:last:*factor]; last is in the
/// range if the steps meet it. A list may be of words. Several make every combination, the last one's
/// values running first. Throws std::runtime_error with what is wrong: a range that is none, or too
/// many problems.
std::vector<std::string> expand_ranges(std::string_view text);

/// Parses A,B,…: problems, with ranges or without, and random:N. `flag` is the family's name behind
/// two dashes. Throws UsageError.
Problems parse_problems(const std::string& flag, const std::string& text);

/// The named problems, and the random ones behind them, for all operations of a family. Of a seed
/// they are the same on every machine, and fewer are the first of more. They look like the family's
/// benchmark problems on that backend: each number is log-uniform from 1 to the largest that stands
/// in its place there. For every operation, arithmetic, bytes and memory (of f32) are at most those
/// of its largest benchmark problem, and the bytes at least a sixteenth of the smallest one's, as
/// less is over sooner than a launch. Throws UsageError when so many cannot be found.
std::vector<std::string> draw_problems(std::span<const Family> operations, const Problems& problems,
                                       Backend backend, std::uint64_t seed);

/// The operations of a family.
std::span<const Family> operations_of(std::string_view family);

}  // namespace ladder
