// Idea      the lanes of a warp exchange registers by shuffles; only one number per warp goes
//           through shared memory
// Vs v02    one barrier per row instead of nine, and 8 numbers in shared memory, not 256
// Bound by  the two passes over x: the second waits for caches, or for DRAM where the rows that are
//           being worked on do not fit them
// Limits    none
#include "rmsnorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

/// The sum over the block's threads; all of them get it.
__device__ float block_sum(float value, float (&warp_sums)[kWarps]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  if (lane == 0) warp_sums[warp] = value;
  __syncthreads();
  value = warp_sums[lane % kWarps];  // every warp adds them again: cheaper than a broadcast
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

template <class T>
__global__ void warp_shuffle(rmsnorm::Args<T> a) {
  __shared__ float warp_sums[kWarps];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x;

  float sum_sq = 0;
  for (int c = t; c < a.cols; c += kBlock) {
    const float value = static_cast<float>(x[c]);
    sum_sq += value * value;
  }
  const float scale = rsqrtf(block_sum(sum_sq, warp_sums) / a.cols + a.epsilon);
  for (int c = t; c < a.cols; c += kBlock) {
    y[c] = T(static_cast<float>(x[c]) * scale * static_cast<float>(a.weight[c]));
  }
}

struct WarpShuffle {
  static constexpr ladder::Version version{"the reduction by warp shuffles"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch(warp_shuffle<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<WarpShuffle, rmsnorm, float> registration;

}  // namespace
