// The forward kernels from v07 on: softmax, log-softmax and causal softmax of rows that are held in
// registers by a warp, a block or a cluster.
#pragma once

#include "device/row_length.hpp"
#include "device/row_span.hpp"
#include "row.hpp"
#include "softmax.hpp"

#include <cfloat>
#include <cmath>
#include <type_traits>

namespace softmax_rows {

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

/// What is done about the columns that a row of a causal softmax must not see.
enum class Mask {
  none,     ///< they are seen
  applied,  ///< their elements are read, and then left out
  skipped,  ///< vectors of nothing else are not read
};

/// Half a warp holds a row of 896 to 1024 16-bit elements in whole sectors, which has no edges. A
/// multiprocessor has 64 such rows under way, an H100 all of 8192.
template <class T>
struct HalfWarp : ladder::Row<ladder::Vec128<T>, 16, 64> {
  static constexpr int kLeast = 896;
  static bool takes(int cols) {
    constexpr int kMost = HalfWarp::kThreads * HalfWarp::kElements;
    return cols >= kLeast && cols <= kMost && cols % Cut<T>::kSector == 0;
  }
};
template <class Row>
constexpr bool kIsHalfWarp = Row::kThreads == 16;

/// Vectors of a thread that a row has in any case: to be told so saves registers.
template <class Row>
constexpr int kSureVectors = 0;
template <class T>
constexpr int kSureVectors<HalfWarp<T>> = HalfWarp<T>::kLeast /
                                          (HalfWarp<T>::kThreads * HalfWarp<T>::Vec::size);

/// Whether a thread holds elements as they came, and takes their exponentials twice: rows of 16-bit
/// types that are a warp's or half a warp's. As many floats are twice the registers; with fewer a
/// multiprocessor has 48 rows of a warp under way (12 blocks), and not 32.
template <bool kLog, Mask kMask, class Row, class T>
constexpr bool kPacked = sizeof(T) == 2 && Row::kThreads <= 32 && Row::kElements >= 32 && !kLog
                         && kMask == Mask::none;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int kPackedBlocks = 8;  // all that its multiprocessors take
#else
constexpr int kPackedBlocks = 12;
#endif
template <bool kLog, Mask kMask, class Row, class T>
constexpr int kLeastBlocks =
    kPacked<kLog, kMask, Row, T> && !kIsHalfWarp<Row> ? kPackedBlocks : Row::kLeastBlocks;

/// The larger element of two at each place.
template <class T>
__device__ ladder::Vec128<T> larger(const ladder::Vec128<T>& a, const ladder::Vec128<T>& b) {
  ladder::Vec128<T> out;
#if __CUDA_ARCH__ >= 800
  using Pair = std::conditional_t<std::is_same_v<T, ladder::half>, __half2, __nv_bfloat162>;
  Pair of_a[4], of_b[4];
  std::memcpy(static_cast<void*>(of_a), &a, 16);
  std::memcpy(static_cast<void*>(of_b), &b, 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) of_a[i] = __hmax2(of_a[i], of_b[i]);
  std::memcpy(&out, of_a, 16);
#else  // there is no instruction, and in CUDA 12.0 no function for all of these types
#pragma unroll
  for (int i = 0; i < out.size; ++i) {
    out[i] = static_cast<T>(fmaxf(static_cast<float>(a[i]), static_cast<float>(b[i])));
  }
#endif
  return out;
}

/// One row by Row::kThreads threads in each of kBlocks blocks; `t` is the running one's number
/// among all of them, and exchange(total) merges what the blocks have.
///
/// Thread t holds vectors t, t + kThreads, … of the row in registers, up to Row::kVectors of them;
/// what is beyond is read again when the maximum and the sum are known. The first threads have one
/// edge element each.
template <bool kLog, Mask kMask, class Row, int kBlocks, class T, class Exchange>
__device__ __forceinline__ void forward_row(const softmax::Args<T>& a, std::int64_t row, int t,
                                            Exchange exchange) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads * kBlocks, kVectors = Row::kVectors;
  constexpr int kElements = Row::kElements;
  constexpr bool kIsPacked = kPacked<kLog, kMask, Row, T>;
  const Cut<T> cut(row * a.cols, a.cols);
  const int head = kIsHalfWarp<Row> ? 0 : cut.head;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  const int seen =
      kMask == Mask::none ? a.cols : causal_softmax::visible(row, a.rows, a.cols);  // columns
  auto is_seen = [&](int column) { return kMask == Mask::none || column < seen; };
  auto is_read = [&](int v) {
    return v < cut.vectors && (kMask != Mask::skipped || is_seen(head + v * Vec::size));
  };
  auto load_more = [&](int v, float(&more)[Vec::size]) {
    const int column = head + v * Vec::size;
    const Vec loaded = Vec::load(x + column);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      more[e] = is_seen(column + e) ? static_cast<float>(loaded[e]) : -INFINITY;
    }
  };

  Vec loaded[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(-INFINITY);  // beyond the row
    if (k < kSureVectors<Row> || is_read(v)) loaded[k] = load_held<Row>(x + head + v * Vec::size);
  }
  const bool has_edge = !kIsHalfWarp<Row> && t < cut.edges;
  const int edge_column = cut.edge_column(t);
  const bool edge_seen = has_edge && is_seen(edge_column);
  T loaded_edge = T(-INFINITY);
  if (edge_seen) loaded_edge = x[edge_column];

  // First relative to the largest element of this thread …
  const float edge = static_cast<float>(loaded_edge);
  float held[kElements];  // elements, and from the sum on, but for the logarithm, exponentials
  float max = fmaxf(edge, -FLT_MAX);
  if constexpr (kIsPacked) {
    Vec largest = loaded[0];
#pragma unroll
    for (int k = 1; k < kVectors; ++k) largest = larger(largest, loaded[k]);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) max = fmaxf(max, static_cast<float>(largest[e]));
  } else {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int k = i / Vec::size, e = i % Vec::size;
      held[i] = static_cast<float>(loaded[k][e]);
      if (!is_seen(head + (k * kThreads + t) * Vec::size + e)) held[i] = -INFINITY;
      max = fmaxf(max, held[i]);
    }
  }
  Online total{max, fast_exp(edge - max)};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if constexpr (kIsPacked) ladder::stay_packed(loaded[k]);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      float& held_one = held[k * Vec::size + e];
      const float element = kIsPacked ? static_cast<float>(loaded[k][e]) : held_one;
      const float exponential = fast_exp(element - max);
      total.sum += exponential;
      if (!kLog && !kIsPacked) held_one = exponential;
    }
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && is_read(v); v += kThreads) {
    float more[Vec::size];
    load_more(v, more);
    const float before = total.max;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.max = fmaxf(total.max, more[e]);
    total.sum *= fast_exp(before - total.max);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.sum += fast_exp(more[e] - total.max);
  }

  // … then to the row's.
  total = merge<(kIsHalfWarp<Row> ? 16 : 32)>(total);
  if constexpr (Row::kThreads > 32) {
    constexpr int kWarps = Row::kThreads / 32;
    __shared__ Online of_warp[kWarps];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) of_warp[warp] = total;
    __syncthreads();
    total = merge<kWarps>(of_warp[lane % kWarps]);
  }
  total = exchange(total);
  const float scale = 1.0f / total.sum, log_sum = kLog ? logf(total.sum) : 0.0f;
  const float scale_held = fast_exp(max - total.max) * scale;
  auto result = [&](float element) {
    return kLog ? element - total.max - log_sum : fast_exp(element - total.max) * scale;
  };

  if (has_edge) y[edge_column] = T(edge_seen ? result(edge) : 0.0f);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t, column = head + v * Vec::size;
    if constexpr (kIsPacked) ladder::stay_packed(loaded[k]);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float held_one = kIsPacked ? static_cast<float>(loaded[k][e]) : held[k * Vec::size + e];
      const float value = kLog || kIsPacked ? result(held_one) : held_one * scale_held;
      out[e] = T(is_seen(column + e) ? value : 0.0f);
    }
    if (v < cut.vectors) store_held<Row>(out, y + column);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    const int column = head + v * Vec::size;
    float more[Vec::size] = {};
    if (is_read(v)) load_more(v, more);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(is_seen(column + e) ? result(more[e]) : 0.0f);
    }
    store_held<Row>(out, y + column);
  }
}

/// Rows that are a warp's or a block's.
template <bool kLog, Mask kMask, class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, kLeastBlocks<kLog, kMask, Row, T>)
    forward(softmax::Args<T> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / Row::kThreads;
  if (row >= a.rows) return;  // a whole warp, or half of one, which the other half does not ask
  forward_row<kLog, kMask, Row, 1>(a, row, threadIdx.x % Row::kThreads,
                                   [](Online of_block) { return of_block; });
}

template <bool kLog, Mask kMask, class T>
void launch_forward(const softmax::Args<T>& a, cudaStream_t stream) {
  auto launch = [&]<class Row>(Row) {
    ladder::launch(forward<kLog, kMask, Row, T>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock,
                   0, stream, a);
  };
  if constexpr (kPacked<kLog, kMask, HalfWarp<T>, T>) {
    if (HalfWarp<T>::takes(a.cols)) return launch(HalfWarp<T>{});
  }
  ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, launch);
}

// Compiled once, in the version that introduces it.
// v07:
extern template void launch_forward<false, Mask::none>(const softmax::Args<float>&, cudaStream_t);
extern template void launch_forward<false, Mask::none>(const softmax::Args<ladder::half>&,
                                                       cudaStream_t);
extern template void launch_forward<false, Mask::none>(const softmax::Args<ladder::bfloat16>&,
                                                       cudaStream_t);
// v12:
extern template void launch_forward<true, Mask::none>(const softmax::Args<float>&, cudaStream_t);
extern template void launch_forward<true, Mask::none>(const softmax::Args<ladder::half>&,
                                                      cudaStream_t);
extern template void launch_forward<true, Mask::none>(const softmax::Args<ladder::bfloat16>&,
                                                      cudaStream_t);
// v21:
extern template void launch_forward<false, Mask::skipped>(const softmax::Args<float>&,
                                                          cudaStream_t);
extern template void launch_forward<false, Mask::skipped>(const softmax::Args<ladder::half>&,
                                                          cudaStream_t);
extern template void launch_forward<false, Mask::skipped>(const softmax::Args<ladder::bfloat16>&,
                                                          cudaStream_t);

}  // namespace softmax_rows
