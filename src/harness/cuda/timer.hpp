// Times kernels on a GPU with CUDA events.
#pragma once

#include "harness/cuda/nvml.hpp"
#include "harness/kernel.hpp"
#include "harness/timer.hpp"

#include <span>
#include <vector>

namespace ladder {

/// Measures kernels that were checked, by the protocols described at Cache, taking turns. One timer
/// per process and GPU: the first measurement warms the GPU up until its clock settles.
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
  void flush();

  cudaStream_t stream_;
  const Nvml& nvml_;
  std::size_t flush_bytes_;
  void* flush_buffer_ = nullptr;
  bool warm_ = false;
};

}  // namespace ladder
