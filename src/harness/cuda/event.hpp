// A CUDA event.
#pragma once

#include "harness/cuda/error.hpp"

namespace ladder {

class Event {
 public:
  Event() { LADDER_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { LADDER_CUDA(cudaEventRecord(event_, stream)); }
  /// What comes behind it in the stream waits for what is recorded.
  void hold(cudaStream_t stream) const { LADDER_CUDA(cudaStreamWaitEvent(stream, event_)); }
  void wait() const { LADDER_CUDA(cudaEventSynchronize(event_)); }
  bool is_past() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    LADDER_CUDA(state);
    return true;
  }
  double us_since(const Event& start) const {
    float ms = 0;
    LADDER_CUDA(cudaEventElapsedTime(&ms, start.event_, event_));
    return 1e3 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace ladder
