// Times kernels on a GPU with CUDA events.
#pragma once

#include "device/kernel.hpp"
#include "harness/cuda/l2_flush.hpp"
#include "harness/cuda/nvml.hpp"
#include "harness/timer.hpp"

#include <random>
#include <span>
#include <vector>

namespace ladder {

/// Measures kernels that were checked, in rounds of all contestants, by the protocols described at
/// Cache. One timer per process and GPU: the first measurement warms the GPU up until its clock
/// settles.
///
/// Where the power limit is at work, what was timed so far is dropped, rounds go on untimed until
/// the clock has settled, and the samples are of that state; afterwards each contestant's burst is
/// timed, too. No launch may reserve a part of the L2, which no flush would reach, or do anything outside
/// the stream that it is given.
class Timer {
 public:
  /// l2 is that of the GPU on which the stream is.
  Timer(cudaStream_t stream, L2Flush& l2, const Nvml& nvml);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                               const Sampling& sampling);

 private:
  void warm_up();

  cudaStream_t stream_;
  L2Flush& l2_;
  const Nvml& nvml_;
  bool warm_ = false;
  std::mt19937 random_{std::random_device{}()};  ///< for the rounds' orders, others in each process
};

}  // namespace ladder
