// Idea      128-bit loads and stores, and the row stays in registers: x is read from memory once,
//           and one exp per element is left
// Vs v04    the traffic is the compulsory 2n, with 128 bytes (of 16-bit types 64) in flight per
//           thread
// Bound by  DRAM bandwidth
// Limits    none. Where the columns are no multiple of the vector, the rows start between its
//           boundaries: there each "vector" is one element. What of a row is beyond 32768 elements,
//           the registers of 1024 threads, is read twice, as in v04.
// Tile      a row is spread over kThreads threads of kElements elements each: over a warp, which
//           needs no barrier, up to 1024 elements, else over a block. At most 64 registers, so that
//           1024 threads fit an SM.
#include "harness/vector.hpp"
#include "softmax.hpp"

#include <cfloat>
#include <cmath>

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

/// The largest of some numbers x, and the sum of their exp(x - max). With no numbers max is finite,
/// so that -inf - max is never a NaN. Aligned, to be loaded and stored as one.
struct alignas(8) Online {
  float max, sum;
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

/// A vector of one element, for rows that are no whole number of 128-bit vectors.
template <class T>
struct One {
  static constexpr int size = 1;
  T element;

  __device__ T& operator[](int) { return element; }
  __device__ const T& operator[](int) const { return element; }
  __device__ static One load(const T* from) { return {*from}; }
  __device__ static One load_streaming(const T* from) { return {*from}; }
  __device__ void store_streaming(T* to) const { *to = element; }
};

/// A row of one warp shares its block with others.
template <int kThreads>
constexpr int kBlockOf = kThreads < 128 ? 128 : kThreads;

template <class T, class Vec, int kThreads, int kElements>
__global__ void __launch_bounds__(kBlockOf<kThreads>, 1024 / kBlockOf<kThreads>)
    vec128(softmax::Args<T> a) {
  constexpr int kVectors = kElements / Vec::size, kRows = kBlockOf<kThreads> / kThreads;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kThreads;
  const int t = threadIdx.x % kThreads;
  if (row >= a.rows) return;  // a whole warp

  // Thread t takes vectors t, t + kThreads, … of the row.
  const int vectors = a.cols / Vec::size;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  Vec loaded[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(-INFINITY);  // beyond the row
    if (v < vectors) loaded[k] = Vec::load_streaming(x + v * Vec::size);
  }

  // First relative to the largest element of this thread …
  float held[kElements];
  float max = -FLT_MAX;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = static_cast<float>(loaded[i / Vec::size][i % Vec::size]);
    max = fmaxf(max, held[i]);
  }
  Online total{max, 0};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = expf(held[i] - max);
    total.sum += held[i];
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
    const float before = total.max;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.max = fmaxf(total.max, static_cast<float>(more[e]));
    total.sum *= expf(before - total.max);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      total.sum += expf(static_cast<float>(more[e]) - total.max);
    }
  }

  // … then to the row's.
  total = merge<32>(total);
  if constexpr (kThreads > 32) {
    constexpr int kWarps = kThreads / 32;
    __shared__ Online of_warp[kWarps];
    if (t % 32 == 0) of_warp[t / 32] = total;
    __syncthreads();
    total = merge<kWarps>(of_warp[t % kWarps]);
  }
  const float scale = 1.0f / total.sum;
  const float scale_held = expf(max - total.max) * scale;

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(held[k * Vec::size + e] * scale_held);
    if (v < vectors) out.store_streaming(y + v * Vec::size);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(expf(static_cast<float>(more[e]) - total.max) * scale);
    }
    out.store_streaming(y + v * Vec::size);
  }
}

struct Vec128 {
  static constexpr ladder::Version version{"128-bit vectors, the row in registers"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    using Vec = ladder::Vec128<T>;
    a.cols % Vec::size == 0 ? launch<T, Vec>(a, stream) : launch<T, One<T>>(a, stream);
  }

 private:
  template <class T, class Vec>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    if (a.cols <= 32 * 8) return launch<T, Vec, 32, 8>(a, stream);
    if (a.cols <= 32 * 16) return launch<T, Vec, 32, 16>(a, stream);
    if (a.cols <= 32 * 32) return launch<T, Vec, 32, 32>(a, stream);
    if (a.cols <= 128 * 16) return launch<T, Vec, 128, 16>(a, stream);
    if (a.cols <= 128 * 32) return launch<T, Vec, 128, 32>(a, stream);
    if (a.cols <= 256 * 32) return launch<T, Vec, 256, 32>(a, stream);
    if (a.cols <= 512 * 32) return launch<T, Vec, 512, 32>(a, stream);
    launch<T, Vec, 1024, 32>(a, stream);
  }
  template <class T, class Vec, int kThreads, int kElements>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = kBlockOf<kThreads>, kRows = kBlock / kThreads;
    ladder::launch(vec128<T, Vec, kThreads, kElements>, ladder::ceil_div(a.rows, kRows), kBlock, 0,
                   stream, a);
  }
};

const ladder::Register<Vec128, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
