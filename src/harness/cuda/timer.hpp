// Times kernels on a GPU with CUDA events.
#pragma once

#include "device/kernel.hpp"
#include "harness/cuda/nvml.hpp"
#include "harness/timer.hpp"

#include <map>
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
/// timed, too. No launch may reserve a part of the L2, which overwriting would not reach.
class Timer {
 public:
  /// l2_bytes: the size of the L2 cache that a cold sample must find overwritten.
  Timer(cudaStream_t stream, std::size_t l2_bytes, const Nvml& nvml);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  std::vector<Samples> measure(std::span<const Contestant> contestants, Cache cache,
                               const Sampling& sampling);

 private:
  void warm_up();
  void flush(Ranks ranks);

  cudaStream_t stream_;
  const Nvml& nvml_;
  std::size_t flush_bytes_;
  void* flush_buffer_ = nullptr;
  std::map<int, void*> buffers_of_peers_;  ///< by CUDA's numbers of them
  bool warm_ = false;
  std::mt19937 random_{std::random_device{}()};  ///< for the rounds' orders, others in each process
};

}  // namespace ladder
