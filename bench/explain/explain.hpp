// Why a version is faster, told by what its kernel does to memory, as the host executor counts it.
#pragma once

#include "cli/options.hpp"
#include "measure/row.hpp"
#include "measure/worker.hpp"

#include <functional>
#include <span>
#include <string>

namespace ladder {

/// One table of a ladder, a row per version, in 100 columns.
std::string explain_table(std::span<const Row> rows, bool colors);

/// What ./bench prints on the host executor: the same counts without words, and errors where
/// there is room.
std::string checked_table(std::span<const Row> rows, bool colors);

/// What its columns are.
std::string checked_legend(bool colors);

/// The sources of a ladder's kernels, the counts below the lines that touch memory, in 100 columns.
std::string explain_lines(std::span<const Row> rows, bool colors);

/// The rows as JSON objects, separated by commas.
std::string explain_json(std::span<const Row> rows);

/// Whether there are counts to show: those of a kernel that did not pass mean nothing.
inline bool counted(const Row& row) { return row.counters && row.check.verdict == Verdict::passed; }

/// What --explain does: counts the kernels that the options select, on the device that open opens, and prints to
/// stdout. Returns whether all of them passed their checks; throws UsageError on a GPU.
bool explain(Options options, const std::function<Opened()>& open);

}  // namespace ladder
