// Idea      log-softmax as v04 does softmax: a block per row, maximum and sum in one pass, the
//           results in a second. The logarithm of the sum is taken once per row
// Vs        log(softmax(x)), which is -inf where exp(x - max) underflows, below -103, and loses
//           digits long before: no exponential is taken of what is written
// Bound by  DRAM bandwidth: 3n where x does not stay in the caches between the passes; 4-byte
//           loads, each of which the running sum has to wait for
// Limits    none
#include "softmax.hpp"

#include <cfloat>
#include <cmath>

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kBlock = 256, kWarps = kBlock / 32;

/// The largest of some numbers x, and the sum of their exp(x - max). With no numbers max is finite,
/// so that -inf - max is never a NaN. Aligned, to be loaded and stored as one.
struct alignas(8) Online {
  float max, sum;

  /// One exp is enough: either the sum so far is rescaled, or x is.
  __device__ void add(float x) {
    const float scale = expf(-fabsf(x - max));
    sum = x > max ? sum * scale + 1.0f : sum + scale;
    max = fmaxf(max, x);
  }
};

/// Merges what kLanes neighbouring lanes have; all of them get the result.
template <int kLanes>
__device__ Online merge(Online mine) {
  float max = mine.max;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, distance));
  }
  float sum = mine.sum * expf(mine.max - max);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  return {max, sum};
}

template <class T>
__global__ void two_reads(softmax::Args<T> a) {
  __shared__ Online of_warp[kWarps];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;

  Online row{-FLT_MAX, 0};
  for (int c = t; c < a.cols; c += kBlock) row.add(static_cast<float>(x[c]));
  row = merge<32>(row);
  if (lane == 0) of_warp[warp] = row;
  __syncthreads();
  row = merge<kWarps>(of_warp[lane % kWarps]);
  const float log_sum = logf(row.sum);
  // The difference first: added up, a large maximum would swallow the logarithm.
  for (int c = t; c < a.cols; c += kBlock) y[c] = T(static_cast<float>(x[c]) - row.max - log_sum);
}

struct LogTwoReads {
  static constexpr ladder::Version version{"a block per row, every element read twice"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::launch(two_reads<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<LogTwoReads, log_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
