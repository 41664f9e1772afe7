// What a timing run is asked for and what it gives: samples in microseconds, with the state of the
// GPU while they were taken. The statistics over samples are in statistics.hpp.
#pragma once

#include "device/kernel.hpp"

#include <string>
#include <vector>

namespace ladder {

/// State of the L2 cache at the start of every sample.
///   cold: twice the L2's size is overwritten, then one launch is timed between two events; and both
///         up to four times, as often as fits into a millisecond, because a short kernel's time goes
///         up and down by turns, launch by launch; on several GPUs the L2 of each, and the time is
///         from the first one's start to the end of all;
///   hot:  a CUDA graph of many launches on the same data is timed, per launch.
enum class Cache { cold, hot };

/// When the rounds of a group end: after min_samples, as soon as the ratio of the first contestant's
/// time to every other's is known to within `target` (the half-width of its 95 % interval). Once the
/// rounds have taken a fifteenth of max_seconds, only its ratio to itself is still waited for, if it is
/// among the contestants twice. In any case after max_samples, or after min_samples and max_seconds.
struct Sampling {
  int min_samples = 12;
  int max_samples = 4000;
  double target = 0.003;
  double max_seconds = 3;
};

/// A kernel and what it is launched with.
struct Contestant {
  const Kernel* kernel;
  Call call;
};

/// What the driver says of a GPU at one moment; zeros where its management library is not there.
struct GpuState {
  double sm_mhz = 0, power_w = 0;
  bool power_limited = false;    ///< slowed down to keep within the power limit
  bool thermal_limited = false;  ///< slowed down by temperature
};

/// The samples of one contestant. Every contestant takes part in every round, once, in an order that
/// changes from round to round: samples with the same index were taken within moments of each other,
/// and all have as many.
struct Samples {
  std::vector<double> us;        ///< microseconds per launch, one per round
  std::vector<GpuState> states;  ///< while each was taken; empty on the host executor
  bool settled = false;  ///< taken at the clock to which the power limit had brought the GPU
  double burst_us = 0;   ///< if so: the median of launches after a pause, each by itself
  std::string error;     ///< why there are none, if the launch failed
};

}  // namespace ladder
