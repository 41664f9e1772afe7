// The measuring of a sweep, group after group, whatever its kernels do.
#pragma once

#include "measure/worker.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ladder {

/// Measures groups in a worker process. A kernel that faults there loses its own row only: it is
/// left out, and the rest of its group is measured in a fresh process. Where several processes measure
/// each group, one after the other, all but the first are fresh, and a row that does not pass in one of
/// them does not pass. On the host executor, where one measures, the groups that come next are begun in
/// other processes, one per core.
class Sweep {
 public:
  /// What is told of the measuring while it goes on.
  struct Listener {
    OnStep on_step;
    std::function<void(const Group&, const Fault&)> on_fault;
  };

  /// open runs in the workers. A kernel that runs for longer than seconds_per_kernel has failed; by
  /// default that is a minute on a GPU, and for ever on the host executor. Throws std::runtime_error
  /// when the device cannot be opened.
  Sweep(std::function<Opened()> open, std::uint64_t seed, std::optional<double> seconds_per_kernel,
        const Sampling& sampling = {}, int processes = 1);

  const Machine& machine() const { return machine_; }

  /// How many groups are measured at the same time.
  unsigned cores() const { return static_cast<unsigned>(most_ahead_) + 1; }

  /// Says in which order measure will be called with these groups.
  void plan(std::span<const Group> groups);

  /// A row for each kernel of the group, in its order. Throws Interrupted.
  std::vector<Row> measure(const Group& group, const Listener& listener);

  /// Why no fresh process can use the device after a fault; empty while all is well. Then all that
  /// was still to be measured has failed.
  const std::string& device_gone() const { return device_gone_; }

 private:
  /// A worker that has begun with a group.
  struct Ahead {
    const Group* group;
    std::unique_ptr<Worker> worker;
  };

  bool take_over(const Group& group);
  void begin_those_after(const Group& group);
  std::unique_ptr<Worker> spare_worker();
  std::variant<std::vector<Row>, Fault> attempt(const Group& group, const Listener& listener);
  using Faults = std::map<const Kernel*, std::string>;
  std::vector<Row> measure_once(Group rest, Faults& faults, const Listener& listener);

  std::function<Opened()> open_;
  std::uint64_t seed_;
  Sampling sampling_;
  int processes_;  ///< that measure each group
  Turn turn_;      ///< of the worker that is next
  std::unique_ptr<Worker> worker_;
  std::vector<Ahead> ahead_;
  std::vector<std::unique_ptr<Worker>> spare_;
  std::size_t most_ahead_ = 0;
  std::span<const Group> planned_;
  Machine machine_;
  double seconds_per_kernel_;
  Faults faulty_;  ///< on a test problem
  std::string device_gone_;
};

}  // namespace ladder
