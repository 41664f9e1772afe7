// The one door into the host executor's shared library. Every object in it is compiled a second
// time, with other flags than the programs' own, so nothing else is exported.
#pragma once

#include "device/kernel.hpp"
#include "host_executor/counts.hpp"
#include "host_executor/recorded.hpp"

#include <functional>
#include <span>
#include <vector>

namespace ladder::host {

struct Api {
  /// The kernels registered for the host executor.
  const std::vector<Kernel>& (*kernels)();

  /// Global memory of the executor: `bytes` bytes, 256-byte aligned. Throws std::bad_alloc.
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* pointer);

  /// The order in which the threads of a block take turns: 0 is ascending, any other value seeds a
  /// random one. A correct kernel gives the same result under every order.
  void (*set_lane_order)(unsigned seed);

  /// Which blocks of a grid run; null: all (executor.hpp).
  void (*set_blocks)(std::function<std::vector<uint3>(dim3 grid)> choose);

  /// Runs pieces of host work side by side, each as if it were a stream: their launches overlap
  /// (executor.hpp). An error ends all of them, and names the stream by its number.
  void (*run_together)(std::span<const std::function<void()>> streams);

  void (*set_sm_count)(int count);  ///< that kernels find, to fill them
  int (*sm_count)();

  /// Counts what the launches in work() do. If it throws, so does this. Null in builds for
  /// AddressSanitizer, whose instrumentation takes the place of the counters'.
  Counters (*count)(const std::function<void()>& work);

  /// Like count, and records the chosen part of what they do.
  Recording (*record)(const RecordingChoice& choice, const std::function<void()>& work);

  /// The launches since the list was last cleared.
  std::vector<Launch>& (*launches)();
};

}  // namespace ladder::host

extern "C" const ladder::host::Api* ladder_host_api();
