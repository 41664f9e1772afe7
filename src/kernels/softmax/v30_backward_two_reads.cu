// Idea      a block per row; y and dy are read for the row's sum, and again for the results
// Vs        v03, whose reduction it has: of a gradient there is only one, and no maximum
// Bound by  DRAM bandwidth: 5n (of the logarithm 4n) where rows do not stay in the caches between
//           the passes; 4-byte loads, each of which the sum has to wait for
// Limits    none
#include "softmax.hpp"

#include <cmath>

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

/// The sum over the block's threads; all of them get it.
__device__ float block_sum(float value, float (&of_warp)[kWarps]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = of_warp[lane % kWarps];  // every warp adds them again: cheaper than a broadcast
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

template <class T>
__global__ void backward(softmax_gradient::Args<T> a) {
  __shared__ float of_warp[kWarps];
  const std::int64_t first = std::int64_t{blockIdx.x} * a.cols;
  const T *const y = a.y + first, *const dy = a.dy + first;
  float sum = 0;
  for (int c = threadIdx.x; c < a.cols; c += kBlock) {
    sum += static_cast<float>(y[c]) * static_cast<float>(dy[c]);
  }
  sum = block_sum(sum, of_warp);
  for (int c = threadIdx.x; c < a.cols; c += kBlock) {
    a.dx[first + c] = T(static_cast<float>(y[c]) * (static_cast<float>(dy[c]) - sum));
  }
}

template <class T>
__global__ void log_backward(softmax_gradient::Args<T> a) {
  __shared__ float of_warp[kWarps];
  const std::int64_t first = std::int64_t{blockIdx.x} * a.cols;
  const T *const y = a.y + first, *const dy = a.dy + first;
  float sum = 0;
  for (int c = threadIdx.x; c < a.cols; c += kBlock) sum += static_cast<float>(dy[c]);
  sum = block_sum(sum, of_warp);
  for (int c = threadIdx.x; c < a.cols; c += kBlock) {
    a.dx[first + c] = T(static_cast<float>(dy[c]) - expf(static_cast<float>(y[c])) * sum);
  }
}

constexpr ladder::Version kVersion{"a block per row, every element read twice"};

struct Backward {
  static constexpr ladder::Version version = kVersion;

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    ladder::launch(backward<T>, a.rows, kBlock, 0, stream, a);
  }
};

struct LogBackward {
  static constexpr ladder::Version version = kVersion;

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    ladder::launch(log_backward<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<Backward, softmax_backward, float, ladder::half, ladder::bfloat16>
    register_backward;
const ladder::Register<LogBackward, log_softmax_backward, float, ladder::half, ladder::bfloat16>
    register_log_backward;

}  // namespace
