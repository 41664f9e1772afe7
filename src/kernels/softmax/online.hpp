// The pair (maximum, sum) of online softmax and its merges, as in v06: the kernels from v07 on share
// them.
#pragma once

#include "row.hpp"

namespace softmax_rows {

/// The largest of some numbers x, and the sum of their exp(x - max). With no numbers max is finite,
/// so that -inf - max is never a NaN. Aligned, to be loaded and stored as one.
struct alignas(8) Online {
  float max, sum;
};

/// Merges the pairs of kLanes neighbouring lanes; all of them get the result.
template <int kLanes>
__device__ Online merge(Online mine) {
  float max = mine.max;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, distance));
  }
  float sum = mine.sum * fast_exp(mine.max - max);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  return {max, sum};
}

/// Merges the pairs of the block's warps, whose lanes have theirs already, through of_warp in shared
/// memory; all threads get the result.
template <int kWarps>
__device__ Online merge_warps(Online mine, Online (&of_warp)[kWarps]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  return merge<kWarps>(of_warp[lane % kWarps]);
}

}  // namespace softmax_rows
