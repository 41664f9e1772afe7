// normalize.hpp's kernel with the next rows on their way: clusters that stay and take row after row
// (device/rows_ahead.hpp). Each block keeps its columns of weight and bias in shared memory. For
// *.sm90a.cu.
#pragma once

#include "device/cluster_exchange.hpp"
#include "device/floats.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/rows_ahead.hpp"
#include "normalize_cluster.hpp"

namespace layernorm_rows {

/// A block, alone on its multiprocessor, holds 64 KiB of a row in registers.
constexpr int kAheadBlock = 512, kAheadVectors = 8;  // threads, and vectors of a thread

/// Weight, and bias where there is one.
template <class Norm>
constexpr int kParameters = Norm::kCentred ? 2 : 1;

/// How many numbers there are, and one of so many parts; none of none.
struct Count {
  float all, part;

  __device__ explicit Count(int n) : all(n), part(n > 0 ? 1.0f / all : 0.0f) {}
};

/// The sum of some numbers, and the squares of their distances from their mean; for RMSNorm from 0.
/// Those of more numbers are made from them without rounding away small distances from a large
/// mean: Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample
/// Variances, 1979.
struct Moments {
  float sum = 0, squares = 0;
};

/// Merges what kLanes neighbouring lanes have, each of `count` numbers and together of `of_all`;
/// all of them get the result.
template <class Norm, int kLanes>
__device__ Moments merge(Moments mine, Count count, Count of_all) {
  Moments all = mine;
  if constexpr (Norm::kCentred) {
    all.sum = ladder::lane_sum<kLanes>(mine.sum);
    const float distance = mine.sum * count.part - all.sum * of_all.part;  // of the means
    all.squares += count.all * distance * distance;
  }
  all.squares = ladder::lane_sum<kLanes>(all.squares);
  return all;
}

template <class Norm, class T, int kBlocks, bool kAligned>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kAheadBlock, 1)
    normalize_ahead(typename Norm::template Args<T> a, ladder::RowPlaces places) {
  using namespace ladder::ptx;
  using Vec = ladder::Vec128<T>;
  using Floats = ladder::Floats<Vec>;
  constexpr int kBlock = kAheadBlock, kVectors = kAheadVectors, kWarps = kBlock / 32;
  __shared__ Moments of_warp[kWarps];
  __shared__ Mbarrier parameters_there;
  T* const weight = ladder::dynamic_shared<T>();
  T* const bias = weight + places.elements;  // where there is one
  ladder::RowsAhead<T, kBlocks> ahead(a.x, a.rows, a.cols,
                                      weight + kParameters<Norm> * places.elements, places);
  ladder::ClusterExchange<kBlocks> exchange;
  const auto share = ahead.share;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  if (t == 0) {
    ahead.start();
    exchange.init();
    mbarrier_init(&parameters_there, 1);
    fence_proxy_async();
    const unsigned bytes = share.cols / Vec::size * 16;
    mbarrier_arrive_expect_tx(&parameters_there, kParameters<Norm> * bytes);
    if (bytes > 0) {
      bulk_load(weight, a.weight + share.first, bytes, &parameters_there);
      if constexpr (Norm::kCentred) bulk_load(bias, a.bias + share.first, bytes, &parameters_there);
    }
  }
  const int last = share.cols / Vec::size * Vec::size + t;  // of what is no whole 16 bytes
  if (!kAligned && last < share.cols) {
    weight[last] = a.weight[share.first + last];
    if constexpr (Norm::kCentred) bias[last] = a.bias[share.first + last];
  }
  cluster_sync();  // all blocks have started, and their barriers exist

  const Count of_row(a.cols), of_block(share.cols);
  const Count of_rank(ladder::RowShare<T>(a.cols, lane % kBlocks, kBlocks).cols);

  for (auto row = ahead.wait(); row < a.rows; row = ahead.wait()) {
    const std::int64_t start = std::int64_t{row} * a.cols + share.first;
    const ladder::RowSpan<T, kAligned> span(start, share.cols);
    const int single_at = span.single(t);

    // Thread t takes vectors t, t + kBlock, … of the block's share, and maybe a single.
    auto count_of_warp = [&](int warp) {
      const int others = span.vectors % kBlock - warp * 32;  // than those that all threads have
      const int vectors = span.vectors / kBlock * 32 + min(max(others, 0), 32);
      return Count(vectors * Vec::size + (warp == 0 ? span.head + span.tail : 0));
    };
    float held[kVectors][Vec::size], single = 0;
    const T* const x = ahead.share_of(row);
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
    Moments moments;  // of a warp, of the block, of the row
    float mean = 0;
    if constexpr (Norm::kCentred) {
      for_each([&](float value) { moments.sum += value; });
      moments.sum = ladder::lane_sum<32>(moments.sum);
      mean = moments.sum * count_of_warp(t / 32).part;
    }
    for_each([&](float value) { moments.squares += (value - mean) * (value - mean); });
    moments.squares = ladder::lane_sum<32>(moments.squares);
    if (lane == 0) of_warp[t / 32] = moments;
    __syncthreads();
    moments = merge<Norm, kWarps>(of_warp[lane % kWarps], count_of_warp(lane % kWarps), of_block);
    if constexpr (kBlocks > 1) {  // all blocks merge the same numbers in the same order
      const float4 told = exchange.tell({moments.sum, moments.squares, ahead.tickets.to_tell(), 0});
      ahead.tickets.told(told.z);
      moments = merge<Norm, kBlocks>({told.x, told.y}, of_rank, of_row);
    }
    mean = moments.sum * of_row.part;
    const float scale = rsqrtf(moments.squares * of_row.part + Norm::kEpsilon);

    mbarrier_wait(&parameters_there, 0);  // of the first row; later this phase has long ended
    auto parameters = [&](const T* from, int v) {  // of vector v
      if constexpr (kAligned) return Vec::load(from + v * Vec::size);
      const T* const low = from + v * Vec::size;
      return ladder::shifted(Vec::load(low), Vec::load(low + Vec::size), span.head);
    };
    auto result = [&](float value, float of_weight, float of_bias) {
      return T((value - mean) * scale * of_weight + of_bias);
    };
    T* const y = a.y + start;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int v = k * kBlock + t;
      if (v >= span.vectors) break;
      const Floats of_weight(parameters(weight, v));
      Floats of_bias(Vec{});
      if constexpr (Norm::kCentred) of_bias = Floats(parameters(bias, v));
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(held[k][e], of_weight[e], of_bias[e]);
      out.store(y + span.column(v));
    }
    if (single_at >= 0) {
      float of_bias = 0;
      if constexpr (Norm::kCentred) of_bias = static_cast<float>(bias[single_at]);
      y[single_at] = result(single, static_cast<float>(weight[single_at]), of_bias);
    }
  }
  ahead.tickets.leave();
}

/// The longest rows, in elements, for which on an H100 one row for each block is faster than rows
/// ahead. Of longer ones than 16384 a block is alone on its multiprocessor, and LayerNorm's waits
/// twice.
template <class Norm, class T>
constexpr int kLongestOfBlock = Norm::kCentred && sizeof(T) == 4 ? 16384 : 32768;

/// By the row's length: launch_normalize_on_hopper's kernels for short rows, and for those that the
/// registers of a cluster do not hold; rows ahead between them.
template <class Norm, class T>
void launch_normalize_ahead(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  constexpr int kVectorsOfBlock = kAheadBlock * kAheadVectors;
  const auto plan = ladder::plan_rows_ahead<T>(a.cols, kVectorsOfBlock, kParameters<Norm>);
  if (a.cols <= kLongestOfBlock<Norm, T> || plan.blocks == 0) {
    return launch_normalize_on_hopper<Norm>(a, stream);
  }
  ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
    a.cols % ladder::Vec128<T>::size == 0
        ? ladder::launch_rows_ahead<normalize_ahead<Norm, T, kBlocks, true>, kBlocks>(
              a, kAheadBlock, plan.places, stream)
        : ladder::launch_rows_ahead<normalize_ahead<Norm, T, kBlocks, false>, kBlocks>(
              a, kAheadBlock, plan.places, stream);
  });
}

}  // namespace layernorm_rows
