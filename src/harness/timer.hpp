// What a timing run is asked for and what it gives: samples in microseconds, with the state of the
// GPU while they were taken. The statistics over samples are in statistics.hpp.
#pragma once

#include "device/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

/// State of the L2 cache at the start of every sample.
///   cold:  other data of twice the L2's size is read, so that all lines are clean, then one launch is
///          timed between two events; and both up to four times, as often as fits into a millisecond,
///          because a short kernel's time goes up and down by turns, launch by launch; on several GPUs
///          the L2 of each, and the time is from the first one's start to the end of all;
///   dirty: the same, but the other data is written: a launch pays for lines that have to be written
///          back, as with nvbench and Triton's do_bench;
///   hot:   a CUDA graph of many launches on the same data is timed, per launch.
enum class Cache { cold, dirty, hot };
const char* to_string(Cache cache);

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

/// Makes every timed launch one of its own, so that none can be left out, or take over what one before
/// it has found. What it asks of the devices is only enqueued, but for checksum().
class Variation {
 public:
  virtual ~Variation() = default;

  /// Makes some elements of the inputs, here and there, those of this number, all others what they were
  /// at first, and spoils some of what launches write.
  virtual void vary(std::uint64_t number) = 0;

  /// Copies what the launch that has just been enqueued writes, on the inputs of this number: of one
  /// contestant, in place of what was kept of it before.
  virtual void keep(std::size_t contestant, std::uint64_t number) = 0;

  /// Of all that launches may write, as it is at this moment, whatever is enqueued.
  virtual std::uint64_t checksum() const = 0;
};

/// A kernel and what it is launched with.
struct Contestant {
  const Kernel* kernel;
  Call call;
  Variation* variation = nullptr;  ///< of its launches; null: they are all alike
  /// By what number it is kept; one that is not there to be kept has none.
  std::optional<std::size_t> kept_as{};
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
