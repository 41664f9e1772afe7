// Where a ring of stages is, for those who fill it and those who empty it.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

/// Where a producer or consumer is in the ring: the stage, and the parity of the mbarrier's phase,
/// 0 in the first pass.
template <int kStages>
struct PipelineState {
  int stage = 0;
  unsigned parity = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

}  // namespace ladder
