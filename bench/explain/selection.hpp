// Kernels and problems chosen by names or by patterns, as --profile and --asm take them.
#pragma once

#include "cli/options.hpp"

#include "harness/device.hpp"

#include <string>
#include <vector>

namespace ladder {

struct Selected {
  const Kernel* kernel;
  Problem problem;

  std::string name() const;  ///< of the benchmark
};

/// What one name or regular expression selects of a device's kernels; `best` may stand in the place of
/// a label, as in a filter. A name alone is its last problem, or the user's. Throws UsageError when it
/// selects nothing.
std::vector<Selected> select(const std::string& flag, const std::string& wanted,
                             const Options& options, const Device& device);

}  // namespace ladder
