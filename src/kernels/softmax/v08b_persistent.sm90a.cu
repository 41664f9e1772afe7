// Idea      persistent clusters: as many as run at once, each of which takes row after row
// Vs v08    a cluster starts once, not for every row, and cluster i of n has rows i, i + n, … by a
//           static partition. A block has the same columns of each, and uses the same shared memory:
//           the wait that there keeps it to the end of the kernel is now at the end of every row
// Bound by  latency: a block loads a row, waits for its cluster and stores the results, and nothing
//           of its next row is in flight meanwhile; only the SM's other block fills the gap, as in
//           v08
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes; rows of up to 131072
//           elements, the registers of eight blocks
// Tile      a row is partitioned among 1, 2, 4 or 8 blocks of 512 threads, 32 elements of it in each
//           thread: device/row_partition.hpp. Two blocks to an SM
#include "ahead.hpp"
#include "cluster.hpp"
#include "softmax.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

template <int kBlocks, class T>
__global__ void __launch_bounds__(kAheadBlock, 1024 / kAheadBlock) __cluster_dims__(kBlocks)
    persistent(softmax::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = kAheadBlock, kElements = kAheadElements;
  constexpr int kVectors = kElements / Vec::size, kWarps = kBlock / 32;
  __shared__ Online of_warp[kWarps];
  __shared__ ClusterSlot slot;
  const int rank = static_cast<int>(ladder::ptx::cluster_rank());
  const ladder::RowPartition<T> part(a.cols, rank, kBlocks);
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t first_row = blockIdx.x / kBlocks, clusters = gridDim.x / kBlocks;

  for (std::int64_t row = first_row; row < a.rows; row += clusters) {
    // The block has the same columns of every row. Thread t takes vectors t, t + kBlock, … of them;
    // the first threads each also handle one edge element.
    const std::int64_t start = row * a.cols + part.first;
    const Cut<T> cut(start, part.cols);
    const bool has_edge = t < cut.edges;
    const int edge_column = cut.edge_column(t);
    const T* const x = a.x + start;

    Vec loaded[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) loaded[k][e] = T(-INFINITY);  // beyond the row
      if (v < cut.vectors) loaded[k] = Vec::load(x + cut.head + v * Vec::size);
    }

    // First relative to the largest element of this thread …
    float held[kElements];
    const float edge = has_edge ? static_cast<float>(x[edge_column]) : -INFINITY;
    float max = fmaxf(edge, -FLT_MAX);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      held[i] = static_cast<float>(loaded[i / Vec::size][i % Vec::size]);
      max = fmaxf(max, held[i]);
    }
    Online total{max, fast_exp(edge - max)};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      held[i] = fast_exp(held[i] - max);
      total.sum += held[i];
    }

    // … then to the block's, and to the row's.
    total = merge<32>(total);
    total = merge_warps(total, of_warp);
    if constexpr (kBlocks > 1) total = merge<kBlocks>(gather<kBlocks>(total, slot));
    const float scale = 1.0f / total.sum;
    const float scale_held = fast_exp(max - total.max) * scale;
    auto result = [&](float of_held) { return of_held * scale_held; };

    T* const y = a.y + start;
    if (has_edge) y[edge_column] = T(result(fast_exp(edge - max)));
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      if (v >= cut.vectors) break;
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = T(result(held[k * Vec::size + e]));
      store_held<ladder::Row<Vec, kBlock, kElements>>(out, y + cut.head + v * Vec::size);
    }

    // All have read of_warp and all blocks this one's slot: the next row, or the end, may come.
    if constexpr (kBlocks > 1) {
      ladder::ptx::cluster_wait();
    } else {
      __syncthreads();
    }
  }
}

struct Persistent {
  static constexpr ladder::Version version{"as many clusters as run at once, row after row"};
  // on 132 SMs one row or two for each cluster
  static constexpr softmax::Problem test_problems[] = {{300, 333}, {40, 65540}};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::with_blocks(
        ahead_plan<T>(a.cols), [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
          const int at_once =
              ladder::blocks_at_once(persistent<kBlocks, T>, kBlocks, kAheadBlock, 0);
          const auto wanted = std::int64_t{a.rows} * kBlocks;
          ladder::launch(persistent<kBlocks, T>,
                         static_cast<unsigned>(min(wanted, std::int64_t{at_once})), kAheadBlock, 0,
                         stream, a);
        });
  }
  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    if (ahead_plan<T>(p.cols).blocks > 0) return ladder::supported();
    return ladder::unsupported(
        "rows of more than 131072 elements do not fit a cluster's registers");
  }
};

const ladder::Register<Persistent, softmax, float> registration;

}  // namespace
}  // namespace softmax_rows
