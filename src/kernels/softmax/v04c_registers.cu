// Idea      the row stays in registers between the passes: x is read from memory once, and one exp
//           per element is left
// Vs v04b   the traffic is the compulsory 2n, with 128 bytes (of 16-bit types 64) in flight per
//           thread. A thread takes its exponentials relative to the largest of its elements, so
//           that none waits for another, and one factor corrects them when the row's is known
// Bound by  DRAM bandwidth for rows that fill the block's registers. Of shorter ones a thread has
//           few loads in flight, and the barrier is left; longer ones are read twice in part
// Limits    columns that are a multiple of the vector's elements: other rows start between its
//           boundaries. What of a row is beyond 8192 elements, the registers of 256 threads, is
//           read twice, as in v04b
// Tile      a row to a block of 256 threads, 32 elements of it in each
#include "device/row_length.hpp"
#include "softmax.hpp"

#include <cfloat>
#include <cmath>

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kThreads = 256, kElements = 32;  // of a row, and of a thread

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

template <class T>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads) registers(softmax::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int kVectors = kElements / Vec::size;
  const std::int64_t row = blockIdx.x;
  const int t = threadIdx.x;

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
  constexpr int kWarps = kThreads / 32;
  __shared__ Online of_warp[kWarps];
  if (t % 32 == 0) of_warp[t / 32] = total;
  __syncthreads();
  total = merge<kWarps>(of_warp[t % kWarps]);
  const float scale = 1.0f / total.sum;
  const float scale_held = expf(max - total.max) * scale;

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(held[k * Vec::size + e] * scale_held);
    if (v < vectors) out.store(y + v * Vec::size);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; v < vectors; v += kThreads) {
    const Vec more = Vec::load(x + v * Vec::size);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(expf(static_cast<float>(more[e]) - total.max) * scale);
    }
    out.store(y + v * Vec::size);
  }
}

struct Registers {
  static constexpr ladder::Version version{"the row in registers between the passes"};

  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    return ladder::needs_whole_vectors<T>(p.cols);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::launch(registers<T>, a.rows, kThreads, 0, stream, a);
  }
};

const ladder::Register<Registers, softmax, float> registration;

}  // namespace
