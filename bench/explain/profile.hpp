// Launches for a profiler: ./bench --profile=…
#pragma once

#include "cli/options.hpp"

namespace ladder {

/// Launches each kernel that options.profile selects once on each of its problems, for a profiler
/// that waits for cudaProfilerStart; checks it before and after, and prints the verdicts. Returns
/// the exit code: 1 if a kernel failed, or if none could be launched. Throws UsageError when
/// nothing is selected.
int profile(const Options& options, Device& device, const char* program);

}  // namespace ladder
