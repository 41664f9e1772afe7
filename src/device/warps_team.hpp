// A team of threads, as in row_team.hpp, of some warps of a block: its teams go on by themselves,
// and never wait for each other.
#pragma once

#include "device/ptx/named_barrier.hpp"
#include "device/row_team.hpp"

#include <cstring>
#include <type_traits>

namespace ladder {

/// Sums over kLanes neighbouring lanes of kNumbers numbers of each: lane n gets that of number
/// n / (kLanes / kNumbers). In each of the first steps half of the lanes take over half of the
/// numbers; 6 shuffles for 4 numbers, where 4 sums take 20.
template <int kLanes, int kNumbers>
__device__ float warp_sums(const float (&values)[kNumbers]) {
  if constexpr (kNumbers == 1) {
    return warp_sum<kLanes>(values[0]);
  } else {
    constexpr int kHalf = kNumbers / 2, kDistance = kLanes / 2;
    const bool is_upper = threadIdx.x & kDistance;
    float mine[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float low = values[i], high = values[kHalf + i];
      mine[i] =
          (is_upper ? high : low) + __shfl_xor_sync(0xffffffffu, is_upper ? low : high, kDistance);
    }
    return warp_sums<kDistance>(mine);
  }
}

template <int kThreads_, int kBlock_>
class WarpsTeam {
 public:
  static constexpr int kThreads = kThreads_, kBlock = kBlock_;
  static constexpr int kTeams = kBlock / kThreads;  // of a block
  static_assert(kThreads == 32 || kTeams < 16, "a barrier for each, and __syncthreads'");

  struct Sums {
    alignas(16) float of_warps[2][kThreads / 32 * 4];
  };
  struct Nothing {};
  using Storage = std::conditional_t<kThreads == 32, Nothing, Sums>;  // a team's, in shared memory
  __device__ explicit WarpsTeam(Storage& storage) {
    if constexpr (kThreads > 32) sums_ = storage.of_warps;
  }

  __device__ static int number() { return threadIdx.x / kThreads; }  // of the team in its block
  __device__ static int rank() { return threadIdx.x % kThreads; }

  /// The sums over the team of 1, 2 or 4 numbers; all of its threads get them. It is a barrier too.
  /// The warps' sums alternate between two stages: who writes to one has met all others since they
  /// read it.
  template <int kNumbers>
  __device__ void sum(float (&values)[kNumbers]) {
    constexpr int kWarps = kThreads / 32, kLanes = 32 / kNumbers;
    constexpr int kFrom = kWarps == 1 ? kLanes : 1;  // lane i * kFrom gets the sum of number i
    const int lane = threadIdx.x % 32;
    float sum = warp_sums<32>(values);  // of number lane / kLanes, over the warp
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      const int warp = rank() / 32;
      float* const of_warps = sums_[stage_];  // [kWarps][kNumbers]
      if (lane % kLanes == 0) of_warps[warp * kNumbers + lane / kLanes] = sum;
      ptx::named_barrier_sync<kThreads>(1 + number());

      stage_ ^= 1;
      // Every warp adds them: cheaper than to tell the others.
      if constexpr (kWarps <= 4) {  // and every lane, without a shuffle
        using Numbers = std::conditional_t<kNumbers == 4, float4,
                                           std::conditional_t<kNumbers == 2, float2, float>>;
#pragma unroll
        for (float& value : values) value = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const Numbers of_warp = reinterpret_cast<const Numbers*>(of_warps)[w];
          float terms[kNumbers];
          std::memcpy(terms, &of_warp, sizeof terms);
#pragma unroll
          for (int i = 0; i < kNumbers; ++i) values[i] += terms[i];
        }
        return;
      }
      sum = 0;  // a lane adds every kLanes-th warp's
      const int of_lane = lane / kNumbers;
#pragma unroll
      for (int w = 0; w < kWarps; w += kLanes) {
        if (w + of_lane < kWarps) sum += of_warps[w * kNumbers + lane];
      }
#pragma unroll
      for (int distance = kNumbers; distance < 32; distance *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      }
    }
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) values[i] = __shfl_sync(0xffffffffu, sum, i * kFrom);
  }

 private:
  float (*sums_)[kThreads / 32 * 4] = nullptr;  // of its warps, in two stages
  int stage_ = 0;
};

}  // namespace ladder
