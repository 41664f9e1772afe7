// A process that measures. It alone opens the device, so that a kernel that faults, and leaves its
// process unable to use the GPU, or one that never ends, takes nothing else with it.
#pragma once

#include "measure/channel.hpp"
#include "measure/suite.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace ladder {

/// A device, why it is the host executor if it is, and best_benchmarks on it.
struct Opened {
  std::unique_ptr<Device> device;
  std::string why_host;
  std::vector<std::string> best{};
};

/// The same as a worker reports it.
struct Machine {
  Backend backend = Backend::host;
  DeviceInfo info;
  std::size_t free_memory = 0;  ///< bytes, when the worker began
  std::string why_host;
  std::vector<std::string> best{};
};

/// Why a worker could not measure a group, and the kernel it ran then; null if several took turns.
struct Fault {
  const Kernel* kernel = nullptr;
  std::string reason;
  bool on_test_problem = false;  ///< and so of the kernel, whatever the group
};

/// Thrown when a signal ended the measuring (signals.hpp).
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// Which of the processes a worker is that measure the same groups one after the other. The first gives
/// its memory back after each group, and test problems are not tried by further ones again.
enum class Turn { only, first, further };

class Worker {
 public:
  /// Forks a process that opens a device. The caller must be single-threaded, and must not have
  /// used CUDA. Throws std::runtime_error with the reason when the device cannot be opened.
  Worker(const std::function<Opened()>& open, std::uint64_t seed, const Sampling& sampling,
         Turn turn = Turn::only);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Machine& machine() const { return machine_; }

  /// Lets it begin with a group that measure is called with next. Returns false if it is gone.
  bool begin(const Group& group);

  /// Has a group measured. A kernel that runs for more than seconds_per_kernel (infinite for no
  /// limit) is a fault. on_step is told of every step, several times a second. After a fault or an
  /// exception the worker is of no more use.
  std::variant<std::vector<Row>, Fault> measure(const Group& group, double seconds_per_kernel,
                                                const OnStep& on_step);

 private:
  void receive_machine();
  std::string how_it_ended();
  void end() noexcept;

  pid_t process_ = -1;
  std::optional<Channel> channel_;
  bool idle_ = false;   ///< it waits for a group, and ends by itself when there are no more
  bool begun_ = false;  ///< with the group that measure comes for
  Machine machine_;
};

}  // namespace ladder
