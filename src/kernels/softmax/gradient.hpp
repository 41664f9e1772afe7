// The gradients' arithmetic, and how much of a row a thread holds: v31 and v32 share them.
#pragma once

#include "device/row_team.hpp"
#include "row.hpp"
#include "softmax.hpp"

namespace softmax_rows {

/// Elements of y and as many of dy that a thread holds at most: together what a forward thread
/// holds.
constexpr int kMostHeld = 16;

// What of an element goes into the row's sum, and what comes out.
__device__ inline float summand(softmax_backward, float y, float dy) { return y * dy; }
__device__ inline float gradient(softmax_backward, float y, float dy, float sum) {
  return y * (dy - sum);
}
__device__ inline float summand(log_softmax_backward, float, float dy) { return dy; }
__device__ inline float gradient(log_softmax_backward, float y, float dy, float sum) {
  return dy - fast_exp(y) * sum;
}

/// The sum over the block's threads, of which each warp's lanes have theirs already, through of_warp
/// in shared memory; all of them get it.
template <int kWarps>
__device__ float sum_warps(float of_lane, float (&of_warp)[kWarps]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) of_warp[warp] = of_lane;
  __syncthreads();
  return ladder::warp_sum<kWarps>(of_warp[lane % kWarps]);
}

}  // namespace softmax_rows
