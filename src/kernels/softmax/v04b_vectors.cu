// Idea      128-bit loads and stores: a thread moves four neighbours in one instruction
// Vs v04    a quarter of the requests for the same bytes, and four times as many of them in flight
//           per load. The running sum takes the elements of a vector one after the other, as before
// Bound by  DRAM bandwidth: 3n where x does not stay in the caches between the passes; and latency:
//           each exp of the running sum waits for the maximum before it
// Limits    columns that are a multiple of the vector's elements: other rows start between its
//           boundaries
#include "device/row_length.hpp"
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
__global__ void vectors(softmax::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  __shared__ Online of_warp[kWarps];
  const int vectors = a.cols / Vec::size;
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;

  Online row{-FLT_MAX, 0};
  for (int v = t; v < vectors; v += kBlock) {
    const Vec loaded = Vec::load(x + v * Vec::size);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) row.add(static_cast<float>(loaded[e]));
  }
  row = merge<32>(row);
  if (lane == 0) of_warp[warp] = row;
  __syncthreads();
  row = merge<kWarps>(of_warp[lane % kWarps]);
  const float scale = 1.0f / row.sum;
  for (int v = t; v < vectors; v += kBlock) {
    const Vec loaded = Vec::load(x + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(expf(static_cast<float>(loaded[e]) - row.max) * scale);
    }
    out.store(y + v * Vec::size);
  }
}

struct Vectors {
  static constexpr ladder::Version version{"128-bit vectors"};

  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::launch(vectors<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<Vectors, softmax, float> registration;

}  // namespace
