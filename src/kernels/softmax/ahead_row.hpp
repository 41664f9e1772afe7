// forward_row.hpp's kernel with the next rows on their way: clusters that stay and take row after
// row (device/rows_ahead.hpp); and the rule for any length. For *.sm90a.cu.
#pragma once

#include "cluster_row.hpp"
#include "device/cluster_exchange.hpp"
#include "device/rows_ahead.hpp"

namespace softmax_rows {

/// A block, alone on its multiprocessor, holds 16384 elements of a row in registers.
constexpr int kAheadBlock = 512, kAheadElements = 32;  // threads, and elements of a thread

template <bool kLog, int kBlocks, class T>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kAheadBlock, 1)
    forward_ahead(softmax::Args<T> a, ladder::RowPlaces places) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = kAheadBlock, kElements = kAheadElements;
  constexpr int kVectors = kElements / Vec::size, kWarps = kBlock / 32;
  __shared__ Online of_warp[kWarps];
  ladder::RowsAhead<T, kBlocks> ahead(a.x, a.rows, a.cols, ladder::dynamic_shared<T>(), places);
  ladder::ClusterExchange<kBlocks> exchange;
  const auto share = ahead.share;
  const int t = static_cast<int>(threadIdx.x), warp = t / 32, lane = t % 32;
  if (t == 0) {
    ahead.start();
    exchange.init();
  }
  ladder::ptx::cluster_sync();  // all blocks have started, and their barriers exist

  for (auto row = ahead.wait(); row < a.rows; row = ahead.wait()) {
    const std::int64_t start = std::int64_t{row} * a.cols + share.first;
    const Cut<T> cut(start, share.cols);
    const bool has_edge = t < cut.edges;
    const int edge_column = cut.edge_column(t);

    // Thread t takes vectors t, t + kBlock, … of the block's share; first relative to the largest
    // element of this thread …
    float held[kElements];  // elements, and from the sum on, but for the logarithm, exponentials
    const T* const x = ahead.share_of(row);
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
    ahead.release();
    Online total{max, fast_exp(edge - max)};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float exponential = fast_exp(held[i] - max);
      total.sum += exponential;
      if (!kLog) held[i] = exponential;
    }

    // … then to the row's.
    total = merge<32>(total);
    if (lane == 0) of_warp[warp] = total;
    __syncthreads();
    total = merge<kWarps>(of_warp[lane % kWarps]);
    if constexpr (kBlocks > 1) {
      const float4 told = exchange.tell({total.max, total.sum, ahead.tickets.to_tell(), 0});
      total = merge<kBlocks>({told.x, told.y});
      ahead.tickets.told(told.z);
    }
    const float scale = 1.0f / total.sum, log_sum = kLog ? logf(total.sum) : 0.0f;
    const float scale_held = fast_exp(max - total.max) * scale;
    auto result = [&](float of_held) {
      return kLog ? of_held - total.max - log_sum : of_held * scale_held;
    };

    T* const y = a.y + start;
    if (has_edge) y[edge_column] = T(result(kLog ? edge : fast_exp(edge - max)));
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
  ahead.tickets.leave();
}

/// The cluster for rows of this length; none, of 0 blocks, holds more than 131072 elements.
template <class T>
ladder::RowPlan ahead_plan(int cols) {
  return ladder::plan_rows_ahead<T>(cols, kAheadBlock * kAheadElements / ladder::Vec128<T>::size,
                                    0);
}

template <bool kLog, class T>
void launch_ahead(const softmax::Args<T>& a, cudaStream_t stream) {
  const auto plan = ahead_plan<T>(a.cols);
  ladder::with_blocks(plan, [&]<int kBlocks>(std::integral_constant<int, kBlocks>) {
    ladder::launch_rows_ahead<forward_ahead<kLog, kBlocks, T>, kBlocks>(a, kAheadBlock, plan.places,
                                                                        stream);
  });
}

/// By the row's length: a warp, a block, rows ahead, and a cluster for what these do not hold.
template <bool kLog, class T>
void launch_by_length(const softmax::Args<T>& a, cudaStream_t stream) {
  if (a.cols <= kLongestForward) return launch_forward<kLog, Mask::none>(a, stream);
  if (ahead_plan<T>(a.cols).blocks > 0) return launch_ahead<kLog>(a, stream);
  launch_cluster_forward<kLog, Mask::none>(a, stream);
}

// Compiled once, in the version that introduces it.
// v09:
extern template void launch_ahead<false>(const softmax::Args<float>&, cudaStream_t);
extern template void launch_ahead<false>(const softmax::Args<ladder::half>&, cudaStream_t);
extern template void launch_ahead<false>(const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
