// Idea      the lanes of a warp exchange registers by shuffles; only one number per warp goes
//           through shared memory
// Vs v02    one barrier per reduction instead of nine, and 8 numbers in shared memory, not 256
// Bound by  the three passes over x: the second and the third wait for caches, from DRAM again
//           where the rows that are being worked on do not fit them. Where the passes take the time
//           and not the reductions, this is no faster than v02
// Limits    none
#include "softmax.hpp"

#include <cmath>

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// Combines the values of the block's threads; all of them get the result.
template <class Combine>
__device__ float block_reduce(float value, float (&of_warp)[kWarps], Combine combine) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = of_warp[lane % kWarps];  // every warp combines them again: cheaper than a broadcast
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

template <class T>
__global__ void warp_shuffle(softmax::Args<T> a) {
  __shared__ float max_of_warp[kWarps], sum_of_warp[kWarps];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x;

  float max = -INFINITY;
  for (int c = t; c < a.cols; c += kBlock) max = fmaxf(max, static_cast<float>(x[c]));
  max = block_reduce(max, max_of_warp, Max{});
  float sum = 0;
  for (int c = t; c < a.cols; c += kBlock) sum += expf(static_cast<float>(x[c]) - max);
  const float scale = 1.0f / block_reduce(sum, sum_of_warp, Sum{});
  for (int c = t; c < a.cols; c += kBlock) {
    y[c] = T(expf(static_cast<float>(x[c]) - max) * scale);
  }
}

struct WarpShuffle {
  static constexpr ladder::Version version{"reductions by warp shuffles"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::launch(warp_shuffle<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<WarpShuffle, softmax, float> registration;

}  // namespace
