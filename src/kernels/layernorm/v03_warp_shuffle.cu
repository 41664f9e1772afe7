// Idea      the lanes of a warp exchange registers by shuffles; only one number per warp goes
//           through shared memory
// Vs v02    one barrier per reduction instead of nine, and 8 numbers in shared memory, not 256
// Bound by  the three passes over x: the second and the third wait for caches, from DRAM again
//           where the rows that are being worked on do not fit them. Where the passes take the time
//           and not the reductions, this is no faster than v02
// Limits    none
#include "layernorm.hpp"

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
__global__ void warp_shuffle(layernorm::Args<T> a) {
  __shared__ float warp_sums[kWarps], warp_m2[kWarps];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x;

  float sum = 0;
  for (int c = t; c < a.cols; c += kBlock) sum += static_cast<float>(x[c]);
  const float mean = block_sum(sum, warp_sums) / a.cols;
  float m2 = 0;  // the sum of squared deviations
  for (int c = t; c < a.cols; c += kBlock) {
    const float distance = static_cast<float>(x[c]) - mean;
    m2 += distance * distance;
  }
  const float scale = rsqrtf(block_sum(m2, warp_m2) / a.cols + a.epsilon);
  for (int c = t; c < a.cols; c += kBlock) {
    const float z = (static_cast<float>(x[c]) - mean) * scale;
    y[c] = T(z * static_cast<float>(a.weight[c]) + static_cast<float>(a.bias[c]));
  }
}

struct WarpShuffle {
  static constexpr ladder::Version version{"reductions by warp shuffles"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch(warp_shuffle<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<WarpShuffle, layernorm, float> registration;

}  // namespace
