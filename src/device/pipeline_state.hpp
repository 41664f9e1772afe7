// Where a ring of stages is, for those who fill it and those who empty it.
#pragma once

#include "device/divisor.hpp"
#include "device/uniform.hpp"

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
  __device__ PipelineState before() const {
    return stage > 0 ? PipelineState{stage - 1, parity} : PipelineState{kStages - 1, parity ^ 1};
  }
  /// By all lanes of a warp, where they are in the same place: for the compiler.
  __device__ PipelineState uniform() const {
    return {ladder::uniform(stage), ladder::uniform(parity)};
  }
};

/// The same where the launch decides how many stages there are.
struct StagesState {
  int stages, stage = 0;
  unsigned parity = 0;
  __device__ void advance() {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
  /// By many; `by_stages` divides by the number of stages.
  __device__ void advance(int many, const Divisor& by_stages) {
    const int passes = by_stages.quotient(stage + many);
    stage += many - passes * stages;
    parity ^= passes & 1;
  }
};

}  // namespace ladder
