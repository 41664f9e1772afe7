// What is to be measured, and the measuring: groups of versions that are checked, timed in turns
// and reported together.
#pragma once

#include "cli/options.hpp"
#include "measure/roofs.hpp"
#include "measure/row.hpp"

#include "harness/variation.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ladder {

/// All selected versions of one ladder on one problem in one cache state, the vendor's first.
struct Group {
  const Family* family;
  DType dtype;
  Problem problem;
  Cache cache;
  std::vector<const Kernel*> kernels;
  std::vector<std::string> selected;  ///< names of the benchmarks the filter selects

  std::string name_of(const Kernel& kernel) const;
};

/// The kernels that this program has for a backend.
const std::vector<Kernel>& kernels_for(Backend backend);

/// The names of benchmarks that are their problem's best on a device, cold ones; none where the filter
/// does not ask for `best`. Versions may ask the driver what the device is like.
std::vector<std::string> best_benchmarks(Options options, const Device& device);

/// The groups that the options select on a backend, in the order of family, problem and version; best:
/// of best_benchmarks. Throws UsageError when there are none.
std::vector<Group> select_groups(const Options& options, Backend backend,
                                 std::span<const std::string> best);
std::vector<Group> select_groups(const Options& options, const Device& device);

/// The full names of the versions, for GPUs and for the host executor, of which the options select a
/// benchmark; `best` is what the host executor takes. Throws UsageError when there are none.
std::set<std::string> select_versions(Options options);

/// Why a problem does not fit into a device's free memory, its reference and other bytes included;
/// empty if it does.
std::string memory_shortfall(const Family& family, const Problem& problem, DType dtype,
                             const Device& device, double extra_bytes = 0);

/// A row of which nothing is known yet but what is to be measured.
Row unmeasured_row(const Group& group, const Kernel& kernel);

/// What is being done to a group.
struct Step {
  std::string doing;               ///< "checking"
  const Kernel* kernel = nullptr;  ///< that runs; null if none does, or several take turns
  std::size_t kernels = 0;         ///< how many may run
  bool on_test_problem = false;    ///< not on the group's
};
using OnStep = std::function<void(const Step&)>;

/// After a fault that leaves this process unable to use the device.
struct DeviceLost : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The fastest of the ladder's versions, and of the vendor's; a suspect one only if all of them are.
/// Null if none was timed.
const Row* fastest(std::span<const Row> rows);
const Row* fastest_library(std::span<const Row> rows);

/// What the stages of measure work with: admit, check, contend, recheck and compare. Each goes on with
/// the rows that have passed so far.
struct Context {
  const Group& group;
  Device& device;
  std::uint64_t seed;
  OnStep on_step = [](const Step&) {};  ///< told before every step
};

/// A row for each kernel. Those that the problem is not for are unsupported; where memory is short,
/// that of the roofs given back, the others have failed.
std::vector<Row> admit(const Group& group, Device& device, Roofs& roofs);

/// Checks the kernels on all of the family's input sets, the first on the problem itself, the others
/// on Family::smaller of it, and on the host executor under two orders of the threads. Returns the
/// problem with its first inputs. Throws DeviceLost, or what kept the inputs from being made.
std::unique_ptr<Workload> check(const Context& context, std::span<Row> rows);

/// What a process has found of kernels by test problems, their families' and their own. As many are
/// tried as fit into a second for each ladder; on the host executor into a tenth of what the other
/// checks take, too.
struct TriedProblems {
  static constexpr double kSeconds = 1, kShareOnHost = 0.1;

  std::set<std::pair<const Kernel*, std::string>> tried{};
  std::map<const Kernel*, CheckResult> wrong{};
  std::map<std::pair<const Family*, DType>, double> seconds{};  ///< that are left
  double host_seconds = 0;                                      ///< the same, for all ladders
};

/// Tries those that passed on test problems that they were not tried on yet, in an order and on inputs
/// that the seed draws. What is known to be wrong fails. Returns whether all that were tried are right:
/// a wrong one may have damaged what is in memory. Throws DeviceLost.
bool try_test_problems(const Context& context, TriedProblems& known, double seconds_of_checks,
                       std::span<Row> rows);

/// The times of what took turns.
struct Contest {
  std::vector<Samples> versions;            ///< of the rows that had passed
  Samples first_again{};                    ///< of the first of them, again; on a GPU
  std::map<std::string, double> roof_us{};  ///< what the problem takes at each, by its name
  /// With what a timed launch of each has written; null: nothing was kept.
  std::unique_ptr<WorkloadVariation> variation{};
};

/// Times those that passed, of which there are some, together with the roofs. Throws DeviceLost.
Contest contend(const Context& context, Workload& workload, Roofs& roofs, const Sampling& sampling,
                std::span<Row> rows);

/// Compares what a timed launch has written, and checks again on its inputs; those that are right still
/// get their samples. Throws DeviceLost, or std::runtime_error where the inputs were changed while the
/// kernels took turns.
void recheck(const Context& context, Workload& workload, const Contest& contest,
             std::span<Row> rows);

/// Holds the rows against the fastest of the vendor's and of the ladder's, and tells them what is so of
/// their group: whether it is short, and its clock and power.
void rank(std::span<Row> rows);

/// Holds the rows against the roof, and ranks them.
void compare(const Contest& contest, std::size_t l2_bytes, std::span<Row> rows);

/// All stages, on a group; test problems only where what is known of them is given. Tells on_step
/// before every step. Throws DeviceLost.
std::vector<Row> measure(
    const Group& group, Device& device, std::uint64_t seed, Roofs& roofs,
    const Sampling& sampling = {}, const OnStep& on_step = [](const Step&) {},
    TriedProblems* known = nullptr);

}  // namespace ladder
