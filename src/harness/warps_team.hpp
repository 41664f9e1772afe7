// A team of threads, as in row_team.hpp, of some warps of a block: its teams go on by themselves,
// and never wait for each other. Not for the host executor, which has no named barriers.
#pragma once

#include "harness/ptx/named_barrier.hpp"
#include "harness/row_team.hpp"

namespace ladder {

template <int kThreads_, int kBlock_>
class WarpsTeam {
 public:
  static constexpr int kThreads = kThreads_, kBlock = kBlock_;
  static constexpr int kTeams = kBlock / kThreads;  // of a block
  static_assert(kTeams < 16, "a barrier for each, and __syncthreads'");

  __device__ static int number() { return threadIdx.x / kThreads; }  // of the team in its block
  __device__ static int rank() { return threadIdx.x % kThreads; }

  /// The sums over the team; all of its threads get them. It is a barrier too. The warps' sums
  /// alternate between two places: who writes to one has met all others since they read it.
  template <int kSums>
  __device__ void sum(float (&values)[kSums]) {
    static_assert(kSums <= 4);
    float4* const of_warp = of_warps(place_);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4 four{};
#pragma unroll
    for (float& value : values) value = lane_sum<32>(value);
    std::memcpy(&four, values, sizeof values);
    if (lane == 0) of_warp[warp] = four;
    ptx::named_barrier_sync<kThreads>(1 + number());
    four = of_warp[number() * kWarps + lane % kWarps];  // cheaper than to tell the others
    std::memcpy(values, &four, sizeof values);
#pragma unroll
    for (float& value : values) value = lane_sum<kWarps>(value);
    place_ ^= 1;
  }

 private:
  static constexpr int kWarps = kThreads / 32;

  __device__ static float4* of_warps(int place) {
    __shared__ float4 sums[2][kBlock / 32];
    return sums[place];
  }

  int place_ = 0;
};

}  // namespace ladder
