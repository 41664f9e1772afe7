// Idea      a warp, a block or a cluster per row, by its length: v21's kernels, and v08's that
//           skips what is not seen
// Vs v21    rows of more than 32768 elements are held by a cluster, and read once: at 1024x131072
//           on an H200 1.44 times as fast in fp32, 1 % slower in 16-bit types
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 262144 elements is read twice
// Tile      a warp up to 1024 elements, a block up to 32768, then v08's clusters: by the row's
//           whole length and not by what of it is seen, because it is written whole
#include "cluster.hpp"
#include "launchers.hpp"
#include "online.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

template <class Row, int kBlocks, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) __cluster_dims__(kBlocks)
    causal_cluster(softmax::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads * kBlocks;  // of the cluster
  constexpr int kElements = Row::kElements, kVectors = Row::kVectors, kWarps = Row::kThreads / 32;
  __shared__ Online of_warp[kWarps];
  __shared__ ClusterSlot slot;
  const std::int64_t row = blockIdx.x / kBlocks;
  const int t = ladder::ptx::cluster_rank() * Row::kThreads + threadIdx.x;

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

  // … then to the block's, and to the row's.
  total = merge<32>(total);
  total = merge_warps(total, of_warp);
  total = merge<kBlocks>(gather<kBlocks>(total, slot));
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
  ladder::ptx::cluster_wait();  // all blocks have read this one's slot
}

struct CausalByLength {
  static constexpr ladder::Version version{"a warp, a block or a cluster, by the row's length"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    if (a.cols <= kLongestOfBlock) return launch_causal_skipped(a, stream);
    launch_smallest_cluster<T, 32>(a.cols, [&]<class Row, int kBlocks>(
                                               Row, std::integral_constant<int, kBlocks>) {
      ladder::launch(causal_cluster<Row, kBlocks, T>, a.rows * kBlocks, Row::kBlock, 0, stream, a);
    });
  }
};

const ladder::Register<CausalByLength, causal_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace softmax_rows
