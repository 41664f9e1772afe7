// Idea      persistent clusters take row after row, and bulk copies (TMA) bring the next rows to
//           shared memory while one is reduced and stored: a multistage pipeline
// Vs v09    while a cluster waits for its sums, and while it stores, more is in flight from DRAM.
//           Each block has the same columns of every row, so that it reads weight and bias once,
//           into shared memory. The blocks push their sums to each other: a barrier of the cluster
//           would wait for the stores of the row before. Rows are scheduled dynamically: with a
//           static partition the fastest cluster would wait for the slowest at the end
// Bound by  DRAM bandwidth; of 132 SMs some are left over, because the blocks of a cluster are
//           neighbours
// Limits    Hopper. x and y start at multiples of 16 bytes. Rows of up to 32768 elements (in
//           fp32 16384) and of more than 512 KiB are v09's
// Tile      a row is shared by 1, 2, 4 or 8 blocks of 512 threads, 128 bytes of it in each
//           thread; up to 3 stages, each for a row: device/row_partition.hpp
#include "device/cluster_all_gather.hpp"
#include "device/floats.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/rows_ahead.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

/// A block, alone on its SM, holds 64 KiB of a row in registers.
constexpr int kBlock = 512, kVectors = 8;  // threads, and vectors of a thread

template <class Norm>
constexpr int kParameters = Norm::kCentred ? 2 : 1;  // weight, and LayerNorm's bias

/// A number of elements and its reciprocal; 0 for none.
struct Count {
  float n, reciprocal;

  __device__ explicit Count(int elements)
      : n(elements), reciprocal(elements > 0 ? 1.0f / n : 0.0f) {}
};

/// The sum of some elements, and the sum of their squared deviations from their mean.
struct Moments {
  float sum = 0, m2 = 0;
};
/// Of RMSNorm: the sum of squares.
struct Squares {
  float m2 = 0;
};
template <class Norm>
using MomentsOf = std::conditional_t<Norm::kCentred, Moments, Squares>;

/// What every block sends to all blocks of its cluster, once a row.
template <class Norm>
struct alignas(16) RowMessage {
  MomentsOf<Norm> moments;                          // of the block's columns
  unsigned next_row;                                // of the cluster; rank 0's broadcasts it
  unsigned no_matter[Norm::kCentred ? 1 : 2] = {};  // fill the 16 bytes
};

/// Merges the moments of kLanes neighbouring lanes, each of `count` elements and together of `all`;
/// all of the lanes get the result. No small deviations from a large mean are rounded away (Chan,
/// Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances,
/// 1979).
template <int kLanes>
__device__ Moments merge(Moments mine, Count count, Count all) {
  Moments merged = mine;
  merged.sum = ladder::warp_sum<kLanes>(mine.sum);
  const float distance = mine.sum * count.reciprocal - merged.sum * all.reciprocal;  // of the means
  merged.m2 += count.n * distance * distance;
  merged.m2 = ladder::warp_sum<kLanes>(merged.m2);
  return merged;
}
template <int kLanes>
__device__ Squares merge(Squares mine, Count, Count) {
  return {ladder::warp_sum<kLanes>(mine.m2)};
}

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
template <class Norm, class T, int kBlocks, bool kAligned>
__global__ void __launch_bounds__(kBlock, 1) __cluster_dims__(kBlocks)
    rows_ahead(typename Norm::template Args<T> a, ladder::RowStages stages,
               ladder::RowCounters* counters) {
  using namespace ladder::ptx;
  using Vec = ladder::Vec128<T>;
  using Floats = ladder::Floats<Vec>;
  using Ahead = ladder::RowsAhead<T, kBlocks>;
  using AllGather = ladder::ClusterAllGather<RowMessage<Norm>, kBlocks>;
  constexpr int kWarps = kBlock / 32;
  __shared__ MomentsOf<Norm> warp_moments[kWarps];
  __shared__ Mbarrier parameters_loaded;
  __shared__ typename Ahead::Storage pipeline;
  __shared__ typename AllGather::Storage messages;
  T* const weight = ladder::dynamic_shared<T>();
  T* const bias = weight + stages.elements;
  Ahead ahead(pipeline, counters, a.x, a.rows, a.cols, weight + kParameters<Norm> * stages.elements,
              stages);
  AllGather all_gather(messages);
  const auto part = ahead.part;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  if (t == 0) {
    ahead.start();
    all_gather.init();
    mbarrier_init(&parameters_loaded, 1);
    fence_proxy_async();
    const unsigned bytes = part.cols / Vec::size * 16;
    mbarrier_arrive_expect_tx(&parameters_loaded, kParameters<Norm> * bytes);
    if (bytes > 0) {
      bulk_load(weight, a.weight + part.first, bytes, &parameters_loaded);
      if constexpr (Norm::kCentred) {
        bulk_load(bias, a.bias + part.first, bytes, &parameters_loaded);
      }
    }
  }
  const int last = part.cols / Vec::size * Vec::size + t;  // of what is no whole 16 bytes
  if (!kAligned && last < part.cols) {
    weight[last] = a.weight[part.first + last];
    if constexpr (Norm::kCentred) bias[last] = a.bias[part.first + last];
  }
  cluster_start<kBlocks>();

  const Count row_count(a.cols), block_count(part.cols);
  const float inverse_cols = Norm::kCentred ? row_count.reciprocal : 1.0f / a.cols;
  const Count rank_count(ladder::RowPartition<T>(a.cols, lane % kBlocks, kBlocks).cols);

  for (auto row = ahead.wait(); row < static_cast<unsigned>(a.rows); row = ahead.wait()) {
    const std::int64_t start = std::int64_t{row} * a.cols + part.first;
    const ladder::RowSpan<T, kAligned> span(start, part.cols);
    const int single_at = span.single(t);

    // Thread t holds vectors t, t + kBlock, … of the block's columns, and at most one single.
    auto count_of_warp = [&](int warp) {
      const int others = span.vectors % kBlock - warp * 32;  // than those that all threads have
      const int vectors = span.vectors / kBlock * 32 + min(max(others, 0), 32);
      return Count(vectors * Vec::size + (warp == 0 ? span.head + span.tail : 0));
    };
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
    MomentsOf<Norm> moments;  // of a warp, then of the block, then of the row
    float mean = 0;
    if constexpr (Norm::kCentred) {
      for_each([&](float value) { moments.sum += value; });
      moments.sum = ladder::warp_sum<32>(moments.sum);
      mean = moments.sum * count_of_warp(t / 32).reciprocal;
    }
    for_each([&](float value) { moments.m2 += (value - mean) * (value - mean); });
    moments.m2 = ladder::warp_sum<32>(moments.m2);
    if (lane == 0) warp_moments[t / 32] = moments;
    __syncthreads();
    moments = merge<kWarps>(warp_moments[lane % kWarps], count_of_warp(lane % kWarps), block_count);
    if constexpr (kBlocks > 1) {  // all blocks merge the same numbers in the same order
      const RowMessage<Norm> of_rank = all_gather.gather({moments, ahead.scheduler.to_broadcast()});
      ahead.scheduler.receive(of_rank.next_row);
      moments = merge<kBlocks>(of_rank.moments, rank_count, row_count);
    }
    if constexpr (Norm::kCentred) mean = moments.sum * row_count.reciprocal;
    const float scale = rsqrtf(moments.m2 * inverse_cols + a.epsilon);

    mbarrier_wait(&parameters_loaded, 0);  // of the first row; later this phase has long ended
    auto load_parameters = [&](const T* from, int v) {  // of vector v
      const T* const low = from + v * Vec::size;
      if constexpr (kAligned) return Floats(Vec::load(low));
      return Floats(ladder::shifted(Vec::load(low), Vec::load_some(low + Vec::size), span.head));
    };
    auto result = [&](float value, float weight_e, float bias_e) {
      const float product = (value - mean) * scale * weight_e;
      return T(Norm::kCentred ? product + bias_e : product);
    };
    T* const y = a.y + start;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      if (v >= span.vectors) break;
      const Floats weight_vec = load_parameters(weight, v);
      Floats bias_vec(Vec{});
      if constexpr (Norm::kCentred) bias_vec = load_parameters(bias, v);
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(held[k][e], weight_vec[e], bias_vec[e]);
      out.store(y + span.column(v));
    }
    if (single_at >= 0) {
      const float bias_e = Norm::kCentred ? static_cast<float>(bias[single_at]) : 0;
      y[single_at] = result(single, static_cast<float>(weight[single_at]), bias_e);
    }
  }
  ahead.scheduler.leave();
}

}  // namespace

template <class Norm, class T>
void launch_rows_ahead(const typename Norm::template Args<T>& a, void* state, cudaStream_t stream) {
  auto* const counters = static_cast<ladder::RowCounters*>(state);
  const auto plan = ladder::plan_rows_ahead<T>(a.cols, kBlock * kVectors, kParameters<Norm>);
  if (a.cols <= kLongestOfBlock<Norm, T> || plan.blocks == 0) {
    return launch_cluster<Norm>(a, stream);
  }
  ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
    a.cols % ladder::Vec128<T>::size == 0
        ? ladder::launch_rows_ahead<rows_ahead<Norm, T, kBlocks, true>, kBlocks>(
              a, kBlock, plan.stages, stream, counters)
        : ladder::launch_rows_ahead<rows_ahead<Norm, T, kBlocks, false>, kBlocks>(
              a, kBlock, plan.stages, stream, counters);
  });
}

#define INSTANTIATE(Norm, T) \
  template void launch_rows_ahead<Norm>(const Norm::Args<T>&, void*, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, )

}  // namespace row_norm

namespace {

struct RowsAhead {
  static constexpr ladder::Version version{"long rows on their way before they are needed"};

  template <class T>
  static std::size_t state(const layernorm::Args<T>& a) {
    return row_norm::state_of_rows_ahead<layernorm>(a);
  }
  template <class T>
  static void launch(const layernorm::Args<T>& a, void* state, cudaStream_t stream) {
    row_norm::launch_rows_ahead<layernorm>(a, state, stream);
  }
};

const ladder::Register<RowsAhead, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
