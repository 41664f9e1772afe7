// Idea      the hardware's exponential: e^d is 2^(d * log2 e), a product and ex2.approx
// Vs v05    3 instructions with the difference, where expf, which is exact to 1 unit in the last
//           place, takes some 9: that is most of what the kernel does. An H100 that moves 16-bit
//           elements at full speed has time for some 40 instructions per element, but only if no
//           warp ever waits, and the rows that come last leave nothing to hide behind
// Bound by  DRAM bandwidth
// Limits    columns that are a multiple of the vector's elements, as v05. What of a row is beyond
//           32768 elements, the registers of 1024 threads, is read twice. Exponentials below 2^-126
//           become 0.
// Tile      a row is spread over kThreads threads of kElements elements each, by its length: see
//           device/row_length.hpp
#include "device/ptx/exp2.hpp"
#include "device/row_length.hpp"
#include "softmax.hpp"

#include <cfloat>
#include <cmath>

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

/// e^d. The difference is taken before the product, so that what is rounded grows with |d| only.
__device__ float fast_exp(float d) { return ladder::ptx::exp2_approx(ladder::ptx::kLog2E * d); }

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
  float sum = mine.sum * fast_exp(mine.max - max);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  return {max, sum};
}

template <class T, class Row>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    fast_exp_rows(softmax::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kElements = Row::kElements, kVectors = Row::kVectors;
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
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
    if (v < vectors) loaded[k] = Vec::load(x + v * Vec::size);
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
    held[i] = fast_exp(held[i] - max);
    total.sum += held[i];
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
    const float before = total.max;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.max = fmaxf(total.max, static_cast<float>(more[e]));
    total.sum *= fast_exp(before - total.max);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      total.sum += fast_exp(static_cast<float>(more[e]) - total.max);
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
  const float scale_held = fast_exp(max - total.max) * scale;

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(held[k * Vec::size + e] * scale_held);
    if (v < vectors) out.store(y + v * Vec::size);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(fast_exp(static_cast<float>(more[e]) - total.max) * scale);
    }
    out.store(y + v * Vec::size);
  }
}

struct FastExp {
  static constexpr ladder::Version version{"the hardware's exponential, base 2"};

  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, [&]<class Row>(Row) {
      ladder::launch(fast_exp_rows<T, Row>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0,
                     stream, a);
    });
  }
};

const ladder::Register<FastExp, softmax, float, ladder::bfloat16> registration;

}  // namespace
