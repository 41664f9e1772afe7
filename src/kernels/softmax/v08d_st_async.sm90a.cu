// Idea      the all-gather of the blocks' pairs pushes them: asynchronous stores (st.async) into each
//           other's shared memory, which count at a barrier there
// Vs v08c   no barrier of the cluster for a row, which would wait until the L2 has the results of
//           the row before: a block waits for the others' messages and for nothing else, and may be
//           a row ahead of them. For rows that are one block's nothing changes
// Bound by  DRAM bandwidth, until the end: clusters do not all advance at the same speed, and with
//           a static partition of the rows the fastest wait for the slowest
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes; rows of up to 131072
//           elements, the registers of eight blocks
// Tile      a row is partitioned among 1, 2, 4 or 8 blocks of 512 threads, 32 elements of it in each
//           thread; up to 3 stages of rows that are on their way: device/row_partition.hpp
//
// The ring is v08c's. device/cluster_all_gather.hpp says why messages alternate between two places,
// and why a block may end after its last row.
#include "ahead.hpp"
#include "device/row_length.hpp"
#include "softmax.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {
namespace {

/// What every block sends to all blocks of its cluster, once a row.
struct alignas(16) PushedTotal {
  Online total;                // of the block's columns
  unsigned no_matter[2] = {};  // fills the 16 bytes
};

template <int kBlocks, class T>
__global__ void __launch_bounds__(kAheadBlock, 1) __cluster_dims__(kBlocks)
    pushed_totals(softmax::Args<T> a, ladder::RowStages stages) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = kAheadBlock, kElements = kAheadElements;
  constexpr int kVectors = kElements / Vec::size, kWarps = kBlock / 32;
  __shared__ Online of_warp[kWarps];
  using AllGather = ladder::ClusterAllGather<PushedTotal, kBlocks>;
  __shared__ typename AllGather::Storage messages;
  __shared__ ladder::ptx::Mbarrier full[ladder::RowStages::kMost];
  AllGather all_gather(messages);
  T* const ring = ladder::dynamic_shared<T>();
  const int rank = static_cast<int>(ladder::ptx::cluster_rank());
  const ladder::RowPartition<T> part(a.cols, rank, kBlocks);
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t first_row = blockIdx.x / kBlocks, clusters = gridDim.x / kBlocks;
  const std::int64_t all = std::int64_t{a.rows} * a.cols;

  // By thread 0: asks for the block's part of a row.
  auto issue = [&](std::int64_t row, int stage) {
    if (row >= a.rows) return;
    const ladder::RowWindow<T> window(row * a.cols + part.first, part.cols, all);
    const auto bytes = static_cast<unsigned>(window.elements * sizeof(T));
    ladder::ptx::mbarrier_arrive_expect_tx(&full[stage], bytes);
    if (bytes == 0) return;
    ladder::ptx::bulk_load(ring + stage * stages.elements, a.x + window.begin, bytes, &full[stage]);
  };
  if (t == 0) {
#pragma unroll 1  // here and below: done once, not worth the instructions
    for (int i = 0; i < stages.count; ++i) ladder::ptx::mbarrier_init(&full[i], 1);
    ladder::ptx::fence_proxy_async();
#pragma unroll 1
    for (int i = 0; i < stages.count; ++i) issue(first_row + i * clusters, i);
    all_gather.init();
  }
  ladder::ptx::cluster_start<kBlocks>();

  int stage = 0;
  unsigned parity = 0;
  for (std::int64_t row = first_row; row < a.rows; row += clusters) {
    ladder::ptx::mbarrier_wait(&full[stage], parity);
    // The block has the same columns of every row. Thread t takes vectors t, t + kBlock, … of them;
    // the first threads each also handle one edge element.
    const std::int64_t start = row * a.cols + part.first;
    const Cut<T> cut(start, part.cols);
    const bool has_edge = t < cut.edges;
    const int edge_column = cut.edge_column(t);
    const T* const x = ring + stage * stages.elements + ladder::RowWindow<T>::offset_of(start);

    // First relative to the largest element of this thread …
    float held[kElements];
    float edge = -INFINITY;
    if (has_edge) {  // the matrix's last elements may be in no window
      const bool is_copied = start + edge_column < all / Vec::size * Vec::size;
      edge = static_cast<float>(is_copied ? x[edge_column] : a.x[start + edge_column]);
    }
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

    // All threads have read the row: the stage is free for another.
    __syncthreads();
    if (t == 0) issue(row + stages.count * clusters, stage);
    if (++stage == stages.count) {
      stage = 0;
      parity ^= 1;
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
    if constexpr (kBlocks > 1) total = merge<kBlocks>(all_gather.gather({total}).total);
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
  }
}

struct StAsync {
  static constexpr ladder::Version version{"blocks push their pairs to each other by st.async"};
  // on 132 SMs more rows for some clusters than they have stages
  static constexpr softmax::Problem test_problems[] = {{420, 333}, {52, 65540}};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    const auto plan = ahead_plan<T>(a.cols);
    ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
      ladder::launch_rows_ahead<pushed_totals<kBlocks, T>, kBlocks>(a, kAheadBlock, plan.stages,
                                                                    stream);
    });
  }
  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    if (ahead_plan<T>(p.cols).blocks > 0) return ladder::supported();
    return ladder::unsupported(
        "rows of more than 131072 elements do not fit a cluster's registers");
  }
};

const ladder::Register<StAsync, softmax, float> registration;

}  // namespace
}  // namespace softmax_rows
