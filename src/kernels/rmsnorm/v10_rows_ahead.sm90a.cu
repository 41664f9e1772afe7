// Idea      persistent clusters take row after row, and bulk copies (TMA) bring the next rows to
//           shared memory while one is reduced and stored: a multistage pipeline
// Vs v09    while a cluster waits for its sums, and while it stores, more is in flight from DRAM.
//           Each block has the same columns of every row, so that it reads their weights once,
//           into shared memory. The blocks push their sums to each other: a barrier of the cluster
//           would wait for the stores of the row before. Rows are scheduled dynamically: with a
//           static partition the fastest cluster would wait for the slowest at the end
// Bound by  DRAM bandwidth; of 132 SMs some are left over, because the blocks of a cluster are
//           neighbours
// Limits    Hopper. x and y start at multiples of 16 bytes. Rows of up to 32768 elements and of
//           more than 512 KiB are v09's. No two launches may overlap
// Tile      a row is shared by 1, 2, 4 or 8 blocks of 512 threads, 128 bytes of it in each
//           thread; up to 3 stages, each for a row: device/row_partition.hpp
#include "device/cluster_all_gather.hpp"
#include "device/floats.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/rows_ahead.hpp"
#include "launchers.hpp"

namespace rmsnorm_rows {

/// A block, alone on its SM, holds 64 KiB of a row in registers.
constexpr int kBlock = 512, kVectors = 8;  // threads, and vectors of a thread

/// What every block sends to all blocks of its cluster, once a row.
struct alignas(16) RowMessage {
  float sum_sq;                // of the block's columns
  unsigned next_row;           // of the cluster; the block of rank 0 broadcasts it
  unsigned no_matter[2] = {};  // fill the 16 bytes
};

static __device__ ladder::RowCounters row_counters;

template <class T, int kBlocks, bool kAligned>
__global__ void __launch_bounds__(kBlock, 1) __cluster_dims__(kBlocks)
    rows_ahead(rmsnorm::Args<T> a, ladder::RowStages stages) {
  using namespace ladder::ptx;
  using Vec = ladder::Vec128<T>;
  using Floats = ladder::Floats<Vec>;
  using Ahead = ladder::RowsAhead<T, kBlocks>;
  using AllGather = ladder::ClusterAllGather<RowMessage, kBlocks>;
  constexpr int kWarps = kBlock / 32;
  __shared__ float warp_sums[kWarps];
  __shared__ Mbarrier weight_loaded;
  __shared__ typename Ahead::Storage pipeline;
  __shared__ typename AllGather::Storage messages;
  T* const weight = ladder::dynamic_shared<T>();
  Ahead ahead(pipeline, row_counters, a.x, a.rows, a.cols, weight + stages.elements, stages);
  AllGather all_gather(messages);
  const auto part = ahead.part;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  if (t == 0) {
    ahead.start();
    all_gather.init();
    mbarrier_init(&weight_loaded, 1);
    fence_proxy_async();
    const unsigned bytes = part.cols / Vec::size * 16;
    mbarrier_arrive_expect_tx(&weight_loaded, bytes);
    if (bytes > 0) bulk_load(weight, a.weight + part.first, bytes, &weight_loaded);
  }
  const int last = part.cols / Vec::size * Vec::size + t;  // of what is no whole 16 bytes
  if (!kAligned && last < part.cols) weight[last] = a.weight[part.first + last];
  cluster_start<kBlocks>();

  const float inverse_cols = 1.0f / a.cols;

  for (auto row = ahead.wait(); row < static_cast<unsigned>(a.rows); row = ahead.wait()) {
    const std::int64_t start = std::int64_t{row} * a.cols + part.first;
    const ladder::RowSpan<T, kAligned> span(start, part.cols);
    const int single_at = span.single(t);

    // Thread t holds vectors t, t + kBlock, … of the block's columns, and at most one single.
    float held[kVectors][Vec::size], single = 0;
    const T* const x = ahead.part_of(row);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      if (v >= span.vectors) break;
      const Floats loaded(Vec::load(x + span.column(v)));
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) held[k][e] = loaded[e];
    }
    if (single_at >= 0) single = static_cast<float>(ahead.single(row, x, single_at));
    ahead.release();

    auto for_each = [&](auto use) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (k * kBlock + t >= span.vectors) break;
#pragma unroll
        for (float value : held[k]) use(value);
      }
      if (single_at >= 0) use(single);
    };
    float sum_sq = 0;  // of a warp, then of the block, then of the row
    for_each([&](float value) { sum_sq += value * value; });
    sum_sq = ladder::warp_sum<32>(sum_sq);
    if (lane == 0) warp_sums[t / 32] = sum_sq;
    __syncthreads();
    sum_sq = ladder::warp_sum<kWarps>(warp_sums[lane % kWarps]);
    if constexpr (kBlocks > 1) {  // all blocks add the same numbers in the same order
      const RowMessage of_rank = all_gather.gather({sum_sq, ahead.scheduler.to_broadcast()});
      ahead.scheduler.receive(of_rank.next_row);
      sum_sq = ladder::warp_sum<kBlocks>(of_rank.sum_sq);
    }
    const float scale = rsqrtf(sum_sq * inverse_cols + a.epsilon);

    mbarrier_wait(&weight_loaded, 0);  // of the first row; later this phase has long ended
    auto load_weights = [&](int v) {   // vector v
      const T* const low = weight + v * Vec::size;
      if constexpr (kAligned) return Floats(Vec::load(low));
      return Floats(ladder::shifted(Vec::load(low), Vec::load_some(low + Vec::size), span.head));
    };
    auto result = [&](float value, float weight_e) { return T(value * scale * weight_e); };
    T* const y = a.y + start;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      if (v >= span.vectors) break;
      const Floats weight_vec = load_weights(v);
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(held[k][e], weight_vec[e]);
      out.store(y + span.column(v));
    }
    if (single_at >= 0) {
      y[single_at] = result(single, static_cast<float>(weight[single_at]));
    }
  }
  ahead.scheduler.leave();
}

template <class T>
void launch_rows_ahead(const rmsnorm::Args<T>& a, cudaStream_t stream) {
  const auto plan = ladder::plan_rows_ahead<T>(a.cols, kBlock * kVectors, 1);  // the weights
  if (a.cols <= kLongestOfBlock || plan.blocks == 0) return launch_cluster(a, stream);
  ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
    a.cols % ladder::Vec128<T>::size == 0
        ? ladder::launch_rows_ahead<rows_ahead<T, kBlocks, true>, kBlocks>(a, kBlock, plan.stages,
                                                                           stream)
        : ladder::launch_rows_ahead<rows_ahead<T, kBlocks, false>, kBlocks>(a, kBlock, plan.stages,
                                                                            stream);
  });
}
template void launch_rows_ahead(const rmsnorm::Args<float>&, cudaStream_t);
template void launch_rows_ahead(const rmsnorm::Args<ladder::half>&, cudaStream_t);
template void launch_rows_ahead(const rmsnorm::Args<ladder::bfloat16>&, cudaStream_t);

struct RowsAhead {
  static constexpr ladder::Version version{"long rows on their way before they are needed"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    launch_rows_ahead(a, stream);
  }
};

const ladder::Register<RowsAhead, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace rmsnorm_rows
