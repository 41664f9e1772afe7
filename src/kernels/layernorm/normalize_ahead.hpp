// normalize.hpp's kernel with the next rows on their way: clusters that stay and take row after row
// (harness/rows_ahead.hpp). Each block keeps its columns of weight and bias in shared memory. For
// *.sm90a.cu.
#pragma once

#include "harness/cluster_exchange.hpp"
#include "harness/row_span.hpp"
#include "harness/row_team.hpp"
#include "harness/rows_ahead.hpp"
#include "normalize_cluster.hpp"

namespace layernorm_rows {

/// A block, alone on its multiprocessor, holds 64 KiB of a row in registers.
constexpr int kAheadBlock = 512, kAheadVectors = 8;  // threads, and vectors of a thread

/// Weight, and bias where there is one.
template <class Norm>
constexpr int kParameters = Norm::kCentred ? 2 : 1;

/// Some numbers: how many, their sum, and the squares of their distances from their mean (for
/// RMSNorm from 0), from which those of more are made without rounding away small distances from a
/// large mean: Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing
/// Sample Variances, 1979.
struct Moments {
  float count, sum, squares;

  __device__ float mean() const { return count > 0 ? sum / count : 0.0f; }
};

/// Merges what kLanes neighbouring lanes have; all of them get the result.
template <class Norm, int kLanes>
__device__ Moments merge(const Moments& mine) {
  Moments all{0, 0, mine.squares};
  if constexpr (Norm::kCentred) {
    all.count = ladder::lane_sum<kLanes>(mine.count);
    all.sum = ladder::lane_sum<kLanes>(mine.sum);
    const float distance = mine.mean() - all.mean();
    all.squares += mine.count * distance * distance;
  }
  all.squares = ladder::lane_sum<kLanes>(all.squares);
  return all;
}

template <class Norm, class T, int kBlocks, bool kAligned>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kAheadBlock, 1)
    normalize_ahead(typename Norm::template Args<T> a, ladder::RowPlaces places) {
  using namespace ladder::ptx;
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = kAheadBlock, kHeld = kAheadVectors, kWarps = kBlock / 32;
  __shared__ Mbarrier parameters_there;
  __shared__ Moments of_warp[kWarps];
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
  const auto cols_of_rank =
      static_cast<float>(ladder::RowShare<T>(a.cols, lane % kBlocks, kBlocks).cols);
  cluster_sync();  // all blocks have started, and their barriers exist

  // Thread t has vectors t, t + kBlock, … of the block's share, and maybe a single element.
  struct Row {
    unsigned number;
    Vec held[kHeld];
    T single;
  };
  auto span_of = [&](const Row& row) {
    return ladder::RowSpan<T, kAligned>(std::int64_t{row.number} * a.cols + share.first,
                                        share.cols);
  };
  // The next row, whose moments in this block are told to the others.
  auto begin = [&] {
    Row row;
    row.number = ahead.wait();
    if (row.number >= a.rows) return row;
    const auto span = span_of(row);
    const int single_at = span.single(t);
    const T* const x = ahead.share_of(row.number);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kBlock + t;
      if (v < span.vectors) row.held[k] = Vec::load(x + span.column(v));
    }
    if (single_at >= 0) row.single = ahead.single(row.number, x, single_at);
    ahead.release();

    auto for_each = [&](auto use) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        ladder::stay_packed(row.held[k]);
        if (k * kBlock + t >= span.vectors) break;
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(row.held[k][e]));
      }
      if (single_at >= 0) use(static_cast<float>(row.single));
    };
    Moments moments{};  // of a warp first
    float mean = 0;
    if constexpr (Norm::kCentred) {
      const int vectors = ladder::ceil_div(max(span.vectors - t, 0), kBlock);
      moments.count = ladder::lane_sum<32>(vectors * Vec::size + (single_at >= 0));
      for_each([&](float value) { moments.sum += value; });
      moments.sum = ladder::lane_sum<32>(moments.sum);
      mean = moments.mean();
    }
    for_each([&](float value) { moments.squares += (value - mean) * (value - mean); });
    moments.squares = ladder::lane_sum<32>(moments.squares);
    if (lane == 0) of_warp[t / 32] = moments;
    __syncthreads();
    moments = merge<Norm, kWarps>(of_warp[lane % kWarps]);
    exchange.tell({moments.sum, moments.squares, ahead.tickets.to_tell(), 0});
    return row;
  };

  Row row = begin();
  mbarrier_wait(&parameters_there, 0);
  while (row.number < a.rows) {
    const Row next = begin();  // while the others' moments of this one are on their way
    const float4 heard = exchange.hear();
    ahead.tickets.heard(heard.z);
    const auto moments = merge<Norm, kBlocks>(Moments{cols_of_rank, heard.x, heard.y});
    const float mean = moments.sum / a.cols;
    const float scale = rsqrtf(moments.squares / a.cols + Norm::kEpsilon);

    const auto span = span_of(row);
    auto parameters = [&](const T* from, int v) {  // of vector v
      if constexpr (kAligned) return Vec::load(from + v * Vec::size);
      const T* const low = from + v * Vec::size;
      return ladder::shifted(Vec::load(low), Vec::load(low + Vec::size), span.head);
    };
    auto result = [&](T value, T of_weight, T of_bias) {
      const float z = (static_cast<float>(value) - mean) * scale;
      return T(z * static_cast<float>(of_weight) + static_cast<float>(of_bias));
    };
    T* const y = a.y + std::int64_t{row.number} * a.cols + share.first;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kBlock + t;
      if (v >= span.vectors) break;
      ladder::stay_packed(row.held[k]);
      const Vec of_weight = parameters(weight, v);
      Vec of_bias{}, out;
      if constexpr (Norm::kCentred) of_bias = parameters(bias, v);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(row.held[k][e], of_weight[e], of_bias[e]);
      out.store_streaming(y + span.column(v));
    }
    if (const int at = span.single(t); at >= 0) {
      T of_bias{};
      if constexpr (Norm::kCentred) of_bias = bias[at];
      y[at] = result(row.single, weight[at], of_bias);
    }
    row = next;
  }
  ahead.tickets.leave();
}

/// The longest rows, in elements, for which one row for each block is faster than rows ahead.
constexpr int kLongestOfBlock = 32768;

/// By the row's length: launch_normalize_on_hopper's kernels for short rows, and for those that the
/// registers of a cluster do not hold; rows ahead between them.
template <class Norm, class T>
void launch_normalize_ahead(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  constexpr int kVectorsOfBlock = kAheadBlock * kAheadVectors;
  const auto plan = ladder::plan_rows_ahead<T>(a.cols, kVectorsOfBlock, kParameters<Norm>);
  if (a.cols <= kLongestOfBlock || plan.blocks == 0) {
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
