// Idea      the right kernel for every shape, by v10d's rule: v12's kernels, and those of v08, v09,
//           v10b and v10c with v12's results
// Vs v12    long rows are on their way before they are needed, and held by a cluster, so that they
//           are read once; short rows share a warp, and few long ones the GPU
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 262144 elements is read twice. Of few long rows relies on ascending dispatch
// Tile      v10d's
#include "ahead.hpp"
#include "cluster.hpp"
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "launchers.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {

/// As v09, for rows of up to 131072 elements.
template <int kBlocks, class T>
__global__ void __launch_bounds__(kAheadBlock, 1) __cluster_dims__(kBlocks)
    log_rows_ahead(softmax::Args<T> a, ladder::RowStages stages, ladder::RowCounters* counters) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = kAheadBlock, kElements = kAheadElements;
  constexpr int kVectors = kElements / Vec::size, kWarps = kBlock / 32;
  __shared__ Online of_warp[kWarps];
  using Ahead = ladder::RowsAhead<T, kBlocks>;
  using AllGather = ladder::ClusterAllGather<RowMessage, kBlocks>;
  __shared__ typename Ahead::Storage pipeline;
  __shared__ typename AllGather::Storage messages;
  Ahead ahead(pipeline, counters, a.x, a.rows, a.cols, ladder::dynamic_shared<T>(), stages);
  AllGather all_gather(messages);
  const auto part = ahead.part;
  const int t = static_cast<int>(threadIdx.x), warp = t / 32, lane = t % 32;
  if (t == 0) {
    ahead.start();
    all_gather.init();
  }
  ladder::ptx::cluster_start<kBlocks>();

  for (auto row = ahead.wait(); row < static_cast<unsigned>(a.rows); row = ahead.wait()) {
    // The block has the same columns of every row. Thread t takes vectors t, t + kBlock, … of them;
    // the first threads each also handle one edge element.
    const std::int64_t start = std::int64_t{row} * a.cols + part.first;
    const Cut<T> cut(start, part.cols);
    const bool has_edge = t < cut.edges;
    const int edge_column = cut.edge_column(t);
    const T* const x = ahead.part_of(row);  // in shared memory

    // First relative to the largest element of this thread …
    float held[kElements];
    const float edge = has_edge ? static_cast<float>(ahead.single(row, x, edge_column)) : -INFINITY;
    float max = fmaxf(edge, -FLT_MAX);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      Vec loaded;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) loaded[e] = T(-INFINITY);  // beyond the row
      if (v < cut.vectors) loaded = Vec::load(x + cut.head + v * Vec::size);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        held[k * Vec::size + e] = static_cast<float>(loaded[e]);
        max = fmaxf(max, held[k * Vec::size + e]);
      }
    }
    ahead.release();  // a bulk copy may bring another row to this one's stage
    Online total{max, fast_exp(edge - max)};
#pragma unroll
    for (int i = 0; i < kElements; ++i) total.sum += fast_exp(held[i] - max);

    // … then to the block's, and to the row's. With the pairs the block of rank 0 broadcasts which
    // row comes later.
    total = merge<32>(total);
    if (lane == 0) of_warp[warp] = total;
    __syncthreads();
    total = merge<kWarps>(of_warp[lane % kWarps]);
    if constexpr (kBlocks > 1) {
      const RowMessage of_rank = all_gather.gather({total, ahead.scheduler.to_broadcast()});
      total = merge<kBlocks>(of_rank.total);
      ahead.scheduler.receive(of_rank.next_row);
    }
    const float log_sum = logf(total.sum);
    auto result = [&](float element) { return element - total.max - log_sum; };

    T* const y = a.y + start;
    if (has_edge) y[edge_column] = T(result(edge));
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      if (v >= cut.vectors) break;
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = T(result(held[k * Vec::size + e]));
      out.store(y + cut.head + v * Vec::size);
    }
  }
  ahead.scheduler.leave();
}

/// As v08, for what that does not hold.
template <class Row, int kBlocks, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) __cluster_dims__(kBlocks)
    log_cluster(softmax::Args<T> a) {
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

  auto load_more = [&](int v, float(&more)[Vec::size]) {
    const int column = cut.head + v * Vec::size;
    const Vec vector = Vec::load(x + column);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) more[e] = static_cast<float>(vector[e]);
  };

  Vec loaded[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(-INFINITY);  // beyond the row
    if (cut.has_vector(v)) loaded[k] = load_held<Row>(x + cut.head + v * Vec::size);
  }
  const bool has_edge = cut.has_edge(t);
  const int edge_column = cut.edge_column(t);
  T loaded_edge = T(-INFINITY);
  if (has_edge) loaded_edge = x[edge_column];

  // First relative to the largest element of this thread …
  const float edge = static_cast<float>(loaded_edge);
  float held[kElements];
  float max = fmaxf(edge, -FLT_MAX);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    held[i] = static_cast<float>(loaded[i / Vec::size][i % Vec::size]);
    max = fmaxf(max, held[i]);
  }
  Online total{max, fast_exp(edge - max)};
#pragma unroll
  for (int i = 0; i < kElements; ++i) total.sum += fast_exp(held[i] - max);
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && cut.has_vector(v); v += kThreads) {
    float more[Vec::size];
    load_more(v, more);
    const float before = total.max;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total.max = fmaxf(total.max, more[e]);
    total.sum *= fast_exp(before - total.max);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      total.sum += fast_exp(more[e] - total.max);
    }
  }

  // … then to the block's, and to the row's.
  total = merge<32>(total);
  total = merge_warps(total, of_warp);
  total = merge<kBlocks>(gather<kBlocks>(total, slot));
  const float log_sum = logf(total.sum);
  auto result = [&](float element) { return element - total.max - log_sum; };

  if (has_edge) y[edge_column] = T(result(edge));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t, column = cut.head + v * Vec::size;
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(result(held[k * Vec::size + e]));
    if (cut.has_vector(v)) store_held<Row>(out, y + column);
  }
#pragma unroll(8 / Vec::size)  // eight elements at once; more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    const int column = cut.head + v * Vec::size;
    float more[Vec::size];
    load_more(v, more);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      out[e] = T(result(more[e]));
    }
    store_held<Row>(out, y + column);
  }
  ladder::ptx::cluster_wait();  // all blocks have read this one's slot
}

namespace {

struct LogByShape {
  static constexpr ladder::Version version{"short rows, few long ones, and the others by length"};
  // Short rows, and a long one that the GPU shares.
  static constexpr softmax::Problem test_problems[] = {{2050, 8}, {300, 50}, {1, 600'001}};

  template <class T>
  static std::size_t workspace(const softmax::Args<T>& a) {
    return ladder::is_split_faster<T>(a.rows, a.cols) ? workspace_of_split_rows(a) : 0;
  }
  template <class T>
  static std::size_t state(const softmax::Args<T>& a) {  // by length, v10's
    if (ladder::may_be_split_faster<T>(a.rows, a.cols)) {
      return max(ladder::state_of_split(a.rows, a.cols), state_of_by_length(a));
    }
    return state_of_by_length(a);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_short_rows<log_softmax>(a, stream);
    if (ladder::is_split_faster<T>(a.rows, a.cols)) {
      return launch_split_rows<log_softmax>(a, state, stream);
    }
    if (a.cols <= kLongestOfBlock) return launch_log_registers(a, stream);  // v12
    if (ahead_plan<T>(a.cols).blocks > 0) return launch_log_ahead(a, state, stream);
    launch_smallest_cluster<T, 32>(
        a.cols, [&]<class Row, int kBlocks>(Row, std::integral_constant<int, kBlocks>) {
          ladder::launch(log_cluster<Row, kBlocks, T>, a.rows * kBlocks, Row::kBlock, 0, stream, a);
        });
  }

 private:
  template <class T>
  static void launch_log_ahead(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
    const auto plan = ahead_plan<T>(a.cols);
    ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
      ladder::launch_rows_ahead<log_rows_ahead<kBlocks, T>, kBlocks>(a, kAheadBlock, plan.stages,
                                                                     stream, state);
    });
  }
};

const ladder::Register<LogByShape, log_softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace softmax_rows
