// Idea      one pass over x: the row stays in shared memory until the mean of its squares is known
// Vs v01    256 threads work on a row, whose sums are reduced by warp shuffles, as in LayerNorm's v03;
//           and x is read from memory once, whatever the caches hold
// Bound by  the instructions for single elements, of 16-bit types most of all; a long row leaves
//           room for few blocks on an SM
// Limits    none. What of a row is beyond 48 KiB is read twice.
#include "rmsnorm.hpp"

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

/// The elements of a row that shared memory holds: what every GPU grants unasked, less
/// warp_sums.
template <class T>
constexpr int kMostHeld = (48 * 1024 - 128) / static_cast<int>(sizeof(T));

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
__global__ void one_pass(rmsnorm::Args<T> a, int held_cols) {
  __shared__ float warp_sums[kWarps];
  T* const held = ladder::dynamic_shared<T>();  // threads read what they wrote: no barrier
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;

  float sum_sq = 0;
  int c = threadIdx.x;
  for (; c < held_cols; c += kBlock) {
    const T element = x[c];
    held[c] = element;
    const float value = static_cast<float>(element);
    sum_sq += value * value;
  }
  for (; c < a.cols; c += kBlock) {
    const float value = static_cast<float>(x[c]);
    sum_sq += value * value;
  }
  const float scale = rsqrtf(block_sum(sum_sq, warp_sums) / a.cols + a.epsilon);
  auto result = [&](T value, T weight) {
    return T(static_cast<float>(value) * scale * static_cast<float>(weight));
  };
  c = threadIdx.x;
  for (; c < held_cols; c += kBlock) y[c] = result(held[c], a.weight[c]);
  for (; c < a.cols; c += kBlock) y[c] = result(x[c], a.weight[c]);
}

struct OnePass {
  static constexpr ladder::Version version{"one pass, the row in shared memory"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    const int held_cols = a.cols < kMostHeld<T> ? a.cols : kMostHeld<T>;
    ladder::launch(one_pass<T>, a.rows, kBlock, held_cols * sizeof(T), stream, a, held_cols);
  }
};

const ladder::Register<OnePass, rmsnorm, float> registration;

}  // namespace
