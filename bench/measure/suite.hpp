// What is to be measured, and the measuring: groups of versions that are checked, timed in turns
// and reported together.
#pragma once

#include "cli/options.hpp"
#include "measure/roofs.hpp"
#include "measure/row.hpp"

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ladder {

/// All selected versions of one ladder on one problem in one cache state, the baseline first.
struct Group {
  const Family* family;
  DType dtype;
  Problem problem;
  Cache cache;
  std::vector<const Kernel*> kernels;
  std::vector<std::string> selected;  ///< names of the benchmarks the filter selects

  std::string name_of(const Kernel& kernel) const;
};

/// The kernels that this program has for a backend; no device is opened.
const std::vector<Kernel>& kernels_for(Backend backend);

/// The groups that the options select on a backend, in the order of family, problem and version.
/// Throws UsageError when there are none.
std::vector<Group> select_groups(const Options& options, Backend backend);

/// Why a problem does not fit into a device's free memory, its reference included, with other bytes
/// besides; empty if it does.
std::string lack_of_memory(const Family& family, const Problem& problem, DType dtype,
                           const Device& device, double besides = 0);

/// A row of which nothing is known yet but what is to be measured.
Row unmeasured_row(const Group& group, const Kernel& kernel);

/// What is being done to a group.
struct Step {
  std::string doing;  ///< "checking"
  const Kernel* kernel =
      nullptr;              ///< the kernel that runs; null if none does, or several take turns
  std::size_t kernels = 0;  ///< how many may run
};
using OnStep = std::function<void(const Step&)>;

/// After a fault that leaves this process unable to use the device.
struct DeviceLost : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The fastest version but for the baseline; a suspect one only if all are. Null if none was timed.
const Row* fastest(std::span<const Row> rows);

/// Checks the kernels of a group, on all of the family's input sets (the first on the problem itself,
/// the others on Family::smaller of it) and on the host executor under two orders of the threads;
/// times those that passed, the first of them twice, together with the roofs; and checks them again,
/// on other inputs. Tells on_step before every step. Throws
/// DeviceLost.
std::vector<Row> measure(
    const Group& group, Device& device, std::uint64_t seed, Roofs& roofs,
    const Sampling& sampling = {}, const OnStep& on_step = [](const Step&) {});

}  // namespace ladder
