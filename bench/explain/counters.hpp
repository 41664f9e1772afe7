// What a GPU's own counters say of kernels, beside the host executor's counts: ./bench --counters.
#pragma once

#include "cli/options.hpp"
#include "measure/suite.hpp"

#include "harness/device.hpp"

#include <span>
#include <string>
#include <vector>

namespace ladder {

/// The rows of a group, counted by a device's hardware and, where the problem is small enough for it, by
/// the host executor; checked, not timed. Throws NoHardwareCounters.
std::vector<Row> count_by_hardware(const Group& group, Device& device, Device& host,
                                   std::uint64_t seed);

/// One table of a ladder, in 100 columns: a line per version, and one below it for the host's counts.
std::string counters_table(std::span<const Row> rows, bool colors);

/// What --counters does: prints the tables, and writes the rows to options.csv. Returns whether all
/// versions passed their checks; throws UsageError on the host executor, which is there for why_host.
bool show_counters(const Options& options, Device& device, const std::string& why_host);

}  // namespace ladder
