// What is to be measured, and the measuring: groups of versions that are checked, timed in turns
// and reported together.
#pragma once

#include "options.hpp"
#include "report.hpp"
#include "roofs.hpp"

#include <string>
#include <vector>

namespace ladder {

/// All selected versions of one ladder on one problem in one cache state, the baseline first.
struct Group {
  const Family* family;
  DType dtype;
  std::string problem;
  Cache cache;
  std::vector<const Kernel*> kernels;
  std::vector<std::string> selected;  ///< names of the benchmarks the filter selects

  std::string name_of(const Kernel& kernel) const;
};

/// The groups that the options select on a device, in the order of family, problem and version.
/// Throws UsageError when there are none.
std::vector<Group> select_groups(const Options& options, const Device& device);

/// Why a problem does not fit into a device's free memory, its reference included; empty if it does.
std::string lack_of_memory(const Family& family, const std::string& problem, DType dtype,
                           const Device& device);

/// Checks the kernels of a group, times those that passed together with the memory roof, and checks
/// them again.
std::vector<Row> measure(const Group& group, Device& device, std::uint64_t seed, Roofs& roofs);

}  // namespace ladder
