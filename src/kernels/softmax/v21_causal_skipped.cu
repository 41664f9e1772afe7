// Idea      vectors of which a row sees nothing are not loaded
// Vs v20    of a square matrix half of x is read: 3/4 of the traffic
// Bound by  DRAM bandwidth
// Limits    as v07's: matrices start at multiples of 32 bytes; what of a row is beyond 32768
//           elements is read twice
// Tile      v07's. Rows that see little have as many threads as the others, because they write as
//           much
#include "device/row_length.hpp"
#include "launchers.hpp"
#include "online.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    causal_skipped(softmax::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kElements = Row::kElements, kVectors = Row::kVectors;
  constexpr int kWarps = kThreads / 32;
  __shared__ Online of_warp[kWarps];
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
  if (row >= a.rows) return;  // a whole warp
  const int t = threadIdx.x % kThreads;

  // Thread t takes vectors t, t + kThreads, … of the row; the first threads each also handle one
  // edge element.
  const Cut<T> cut(row * a.cols, a.cols);
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;
  const int visible = causal_softmax::visible(row, a.rows, a.cols);  // columns
  auto is_visible = [&](int column) { return column < visible; };
  auto is_read = [&](int v) { return v < cut.vectors && is_visible(cut.head + v * Vec::size); };

  auto load_visible = [&](int v, float(&elements)[Vec::size]) {
    const int column = cut.head + v * Vec::size;
    const Vec vector = Vec::load(x + column);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      elements[e] = is_visible(column + e) ? static_cast<float>(vector[e]) : -INFINITY;
    }
  };

  Vec loaded[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(-INFINITY);  // beyond the row
    if (is_read(v)) loaded[k] = load_held<Row>(x + cut.head + v * Vec::size);
  }
  const bool has_edge = cut.has_edge(t);
  const int edge_column = cut.edge_column(t);
  const bool edge_visible = has_edge && is_visible(edge_column);
  T loaded_edge = T(-INFINITY);
  if (edge_visible) loaded_edge = x[edge_column];

  // First relative to the largest element of this thread …
  const float edge = static_cast<float>(loaded_edge);
  float held[kElements];
  float max = fmaxf(edge, -FLT_MAX);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int k = i / Vec::size, e = i % Vec::size;
    held[i] = static_cast<float>(loaded[k][e]);
    if (!is_visible(cut.head + (k * kThreads + t) * Vec::size + e)) held[i] = -INFINITY;
    max = fmaxf(max, held[i]);
  }
  Online total{max, fast_exp(edge - max)};
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = fast_exp(held[i] - max);
    total.sum += held[i];
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && is_read(v); v += kThreads) {
    float more[Vec::size];
    load_visible(v, more);
    const float before = total.max;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.max = fmaxf(total.max, more[e]);
    total.sum *= fast_exp(before - total.max);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.sum += fast_exp(more[e] - total.max);
  }

  // … then to the row's.
  total = merge<32>(total);
  if constexpr (kWarps > 1) total = merge_warps(total, of_warp);
  const float scale = 1.0f / total.sum;
  const float scale_held = fast_exp(max - total.max) * scale;
  auto result = [&](float element) { return fast_exp(element - total.max) * scale; };

  if (has_edge) y[edge_column] = T(edge_visible ? result(edge) : 0.0f);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t, column = cut.head + v * Vec::size;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float value = held[k * Vec::size + e] * scale_held;
      out[e] = T(is_visible(column + e) ? value : 0.0f);
    }
    if (v < cut.vectors) store_held<Row>(out, y + column);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    const int column = cut.head + v * Vec::size;
    float more[Vec::size] = {};
    if (is_visible(column)) load_visible(v, more);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(is_visible(column + e) ? result(more[e]) : 0.0f);
    }
    store_held<Row>(out, y + column);
  }
}

struct CausalSkipped {
  static constexpr ladder::Version version{"reads what is seen only"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    launch_causal_skipped(a, stream);
  }
};

const ladder::Register<CausalSkipped, causal_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

template <class T>
void launch_causal_skipped(const softmax::Args<T>& a, cudaStream_t stream) {
  ladder::launch_smallest_row<ladder::Vec128<T>>(a.cols, [&]<class Row>(Row) {
    ladder::launch(causal_skipped<Row, T>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0,
                   stream, a);
  });
}

// Other versions call it too.
template void launch_causal_skipped(const softmax::Args<float>&, cudaStream_t);
template void launch_causal_skipped(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_causal_skipped(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
