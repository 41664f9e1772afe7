// Idea      a dynamic scheduler: clusters draw their rows from an atomic counter
// Vs v08d   who is faster takes more rows: with a static partition the fastest cluster would wait
//           for the slowest at the end. The block of rank 0 draws a row a while ahead, so that
//           nobody waits for the counter, and broadcasts it in the message that the all-gather sends
//           anyway: device/row_scheduler.hpp. The ring has not changed; it is in
//           device/rows_ahead.hpp, because other families have it too
// Bound by  DRAM bandwidth; of 132 SMs some are left over, because the blocks of a cluster are in
//           one GPC
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes; rows of up to 131072
//           elements, the registers of eight blocks
// Tile      a row is partitioned among 1, 2, 4 or 8 blocks of 512 threads, 32 elements of it in each
//           thread; up to 3 stages of rows that are on their way: device/row_partition.hpp
#include "ahead.hpp"
#include "launchers.hpp"

#include <cfloat>
#include <cmath>

namespace softmax_rows {

template <int kBlocks, class T>
__global__ void __launch_bounds__(kAheadBlock, 1) __cluster_dims__(kBlocks)
    rows_ahead(softmax::Args<T> a, ladder::RowStages stages, ladder::RowCounters* counters) {
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
    for (int i = 0; i < kElements; ++i) {
      held[i] = fast_exp(held[i] - max);
      total.sum += held[i];
    }

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
      out.store(y + cut.head + v * Vec::size);
    }
  }
  ahead.scheduler.leave();
}

namespace {

struct RowsAhead {
  static constexpr ladder::Version version{"rows drawn from a counter by the clusters"};

  template <class T>
  static std::size_t state(const softmax::Args<T>&) {
    return sizeof(ladder::RowCounters);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
    launch_ahead(a, state, stream);
  }
  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    if (ahead_plan<T>(p.cols).blocks > 0) return ladder::supported();
    return ladder::unsupported(
        "rows of more than 131072 elements do not fit a cluster's registers");
  }
};

const ladder::Register<RowsAhead, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
void launch_ahead(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
  const auto plan = ahead_plan<T>(a.cols);
  ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
    ladder::launch_rows_ahead<rows_ahead<kBlocks, T>, kBlocks>(a, kAheadBlock, plan.stages, stream,
                                                               state);
  });
}

// Other versions call it too.
template void launch_ahead(const softmax::Args<float>&, void*, cudaStream_t);
template void launch_ahead(const softmax::Args<ladder::half>&, void*, cudaStream_t);
template void launch_ahead(const softmax::Args<ladder::bfloat16>&, void*, cudaStream_t);

}  // namespace softmax_rows
