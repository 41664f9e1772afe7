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

template <class Norm, class T, int kBlocks, bool kAligned>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kAheadBlock, 1)
    normalize_ahead(typename Norm::template Args<T> a, ladder::RowPlaces places) {
  using namespace ladder::ptx;
  using Vec = ladder::Vec128<T>;
  using Team = ladder::BlockTeam<kAheadBlock>;
  constexpr int kBlock = kAheadBlock, kHeld = kAheadVectors;
  __shared__ Mbarrier parameters_there;
  T* const weight = ladder::dynamic_shared<T>();
  T* const bias = weight + places.elements;  // where there is one
  ladder::RowsAhead<T, kBlocks> ahead(a.x, a.rows, a.cols,
                                      weight + kParameters<Norm> * places.elements, places);
  ladder::ClusterExchange<kBlocks> exchange;
  const auto share = ahead.share;
  const int t = static_cast<int>(threadIdx.x);
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

  for (auto row = ahead.wait(); row < a.rows; row = ahead.wait()) {
    const std::int64_t start = std::int64_t{row} * a.cols + share.first;
    const ladder::RowSpan<T, kAligned> span(start, share.cols);
    const int single_at = span.single(t);

    // Thread t takes vectors t, t + kBlock, … of the block's share, and maybe a single.
    Vec held[kHeld];
    T single = T(0.0f);
    const T* const x = ahead.share_of(row);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kBlock + t;
      if (v < span.vectors) held[k] = Vec::load(x + span.column(v));
    }
    if (single_at >= 0) single = ahead.single(row, x, single_at);
    ahead.release();

    auto for_each = [&](auto use) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        ladder::stay_packed(held[k]);
        if (k * kBlock + t >= span.vectors) break;
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) use(static_cast<float>(held[k][e]));
      }
      if (single_at >= 0) use(static_cast<float>(single));
    };
    auto of_cluster = [&](float of_block) {  // all blocks add the same numbers in the same order
      if constexpr (kBlocks == 1) return of_block;
      const float4 told = exchange.tell({of_block, ahead.tickets.to_tell(), 0, 0});
      ahead.tickets.told(told.y);
      return ladder::lane_sum<kBlocks>(told.x);
    };
    float mean = 0;
    if constexpr (Norm::kCentred) {
      float sum = 0;
      for_each([&](float value) { sum += value; });
      mean = of_cluster(ladder::team_sum<Team, 0>(sum)) / a.cols;
    }
    float squares = 0;
    for_each([&](float value) { squares += (value - mean) * (value - mean); });
    const float variance = of_cluster(ladder::team_sum<Team, 1>(squares)) / a.cols;
    const float scale = rsqrtf(variance + Norm::kEpsilon);

    mbarrier_wait(&parameters_there, 0);  // of the first row; later this phase has long ended
    auto parameters = [&](const T* from, int v) {  // of vector v
      if constexpr (kAligned) return Vec::load(from + v * Vec::size);
      const T* const low = from + v * Vec::size;
      return ladder::shifted(Vec::load(low), Vec::load(low + Vec::size), span.head);
    };
    auto result = [&](T value, T of_weight, T of_bias) {
      const float z = (static_cast<float>(value) - mean) * scale;
      return T(z * static_cast<float>(of_weight) + static_cast<float>(of_bias));
    };
    T* const y = a.y + start;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int v = k * kBlock + t;
      if (v >= span.vectors) break;
      ladder::stay_packed(held[k]);
      const Vec of_weight = parameters(weight, v);
      Vec of_bias{}, out;
      if constexpr (Norm::kCentred) of_bias = parameters(bias, v);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(held[k][e], of_weight[e], of_bias[e]);
      out.store_streaming(y + span.column(v));
    }
    if (single_at >= 0) {
      T of_bias{};
      if constexpr (Norm::kCentred) of_bias = bias[single_at];
      y[single_at] = result(single, weight[single_at], of_bias);
    }
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
