// How a version launches kernels on several devices.
#pragma once

#include "device/kernel.hpp"
#include "device/ranks.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include <functional>
#include <vector>
#else
#include "device/current_device.hpp"
#endif

namespace ladder {

/// Calls launch_on(rank) for each, which launches kernels into rank.stream. These may overlap, and wait for
/// each other's; they begin when all that on_each() launched before has ended.
template <class F>
void on_each(Ranks ranks, F launch_on) {
#if defined(LADDER_HOST_EXECUTOR)
  std::vector<std::function<void()>> streams;
  for (const Rank& rank : ranks) {
    streams.push_back([&] {
      const host::LaunchStream given(rank.stream);
      launch_on(rank);
    });
  }
  if (ranks.count == 1) return streams.front()();
  host::run_on_devices(streams);
#else
  const Rank& first = ranks[0];
  if (ranks.count == 1) return launch_on(first);
  expect_success(cudaEventRecord(first.event, first.stream));
  for (const Rank& rank : ranks) {
    const CurrentDevice current(rank.device);
    if (rank.index > 0) expect_success(cudaStreamWaitEvent(rank.stream, first.event, 0));
    launch_on(rank);
    if (rank.index > 0) expect_success(cudaEventRecord(rank.event, rank.stream));
  }
  for (const Rank& rank : ranks) {
    if (rank.index > 0) expect_success(cudaStreamWaitEvent(first.stream, rank.event, 0));
  }
#endif
}

}  // namespace ladder
