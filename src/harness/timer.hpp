// What a timing run is asked for and what it gives: samples in microseconds, with the state of the
// GPU while they were taken. The statistics over samples are in statistics.hpp.
#pragma once

#include "harness/kernel.hpp"

#include <string>
#include <vector>

namespace ladder {

/// State of the L2 cache at the start of every sample.
///   cold: twice the L2's size is overwritten, then one launch is timed between two events; and both
///         once more, because a short kernel's time goes up and down by turns, launch by launch, and
///         which turn is whose depends on how many take part;
///   hot:  a CUDA graph of many launches on the same data is timed, per launch.
enum class Cache { cold, hot };

/// When to stop. Every kernel gets at least min_samples; then it stops when the relative standard
/// error of its mean falls below target, or its samples add up to max_seconds.
struct Sampling {
  int min_samples = 10;
  int max_samples = 1000;
  double target = 0.005;
  double max_seconds = 0.4;
};

/// A kernel and what it is launched with.
struct Contestant {
  const Kernel* kernel;
  const void* args;
};

/// The samples of one kernel. Kernels are measured in rounds, each once per round, so that samples
/// with the same index in two kernels' lists were taken within moments of each other.
struct Samples {
  std::vector<double> us;  ///< microseconds per launch, one per round
  double sm_mhz = 0;       ///< median SM clock; 0 where NVML is not there
  double power_w = 0;      ///< median board power; 0 where NVML is not there
  double throttled = 0;    ///< share of the readings under a power or thermal slowdown
  std::string error;       ///< why there are none, if the launch failed
};

}  // namespace ladder
