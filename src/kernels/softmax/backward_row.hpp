// The gradients' kernels from v31 on: y and dy of a row are held in registers by a warp, a block or
// a cluster.
#pragma once

#include "device/row_length.hpp"
#include "device/row_team.hpp"
#include "row.hpp"
#include "softmax.hpp"

namespace softmax_rows {

// What of an element goes into the row's sum, and what comes out.
__device__ inline float summand(softmax_backward, float y, float dy) { return y * dy; }
__device__ inline float gradient(softmax_backward, float y, float dy, float sum) {
  return y * (dy - sum);
}
__device__ inline float summand(log_softmax_backward, float, float dy) { return dy; }
__device__ inline float gradient(log_softmax_backward, float y, float dy, float sum) {
  return dy - fast_exp(y) * sum;
}

/// One row by Row::kThreads threads in each of kBlocks blocks; `t` is the running one's number
/// among all of them, and exchange(sum) adds up what the blocks have.
///
/// Thread t holds vectors t, t + kThreads, … of y and of dy in registers, up to Row::kVectors of
/// each; what is beyond is read again when the sum is known. The first threads have one edge
/// element each.
template <class Op, class Row, int kBlocks, class T, class Exchange>
__device__ __forceinline__ void backward_row(const softmax_gradient::Args<T>& a, std::int64_t row,
                                             int t, Exchange exchange) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads * kBlocks, kVectors = Row::kVectors;
  const Cut<T> cut(row * a.cols, a.cols);
  const std::int64_t first = row * a.cols + cut.head;  // the first vector's first element

  Vec y[kVectors], dy[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) y[k][e] = dy[k][e] = T(0.0f);  // beyond the row
    if (v < cut.vectors) {
      y[k] = load_held<Row>(a.y + first + v * Vec::size);
      dy[k] = load_held<Row>(a.dy + first + v * Vec::size);
    }
  }
  const bool has_edge = t < cut.edges;
  const std::int64_t edge = row * a.cols + cut.edge_column(t);
  T loaded_y = T(0.0f), loaded_dy = T(0.0f);
  if (has_edge) {
    loaded_y = a.y[edge];
    loaded_dy = a.dy[edge];
  }

  const float edge_y = static_cast<float>(loaded_y), edge_dy = static_cast<float>(loaded_dy);
  float sum = summand(Op{}, edge_y, edge_dy);
  auto add = [&](const Vec& of_y, const Vec& of_dy) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      sum += summand(Op{}, static_cast<float>(of_y[e]), static_cast<float>(of_dy[e]));
    }
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) add(y[k], dy[k]);
#pragma unroll 1  // more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    add(Vec::load(a.y + first + v * Vec::size), Vec::load(a.dy + first + v * Vec::size));
  }
  sum = ladder::lane_sum<32>(sum);
  if constexpr (Row::kThreads > 32) {
    constexpr int kWarps = Row::kThreads / 32;
    __shared__ float of_warp[kWarps];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    sum = ladder::lane_sum<kWarps>(of_warp[lane % kWarps]);
  }
  sum = exchange(sum);

  auto store_gradient = [&](int v, const Vec& of_y, const Vec& of_dy) {
    Vec dx;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      dx[e] = T(gradient(Op{}, static_cast<float>(of_y[e]), static_cast<float>(of_dy[e]), sum));
    }
    store_held<Row>(dx, a.dx + first + v * Vec::size);
  };
  if (has_edge) a.dx[edge] = T(gradient(Op{}, edge_y, edge_dy, sum));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int v = k * kThreads + t;
    if (v >= cut.vectors) break;
    store_gradient(v, y[k], dy[k]);
  }
#pragma unroll 1  // more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    store_gradient(v, Vec::load(a.y + first + v * Vec::size),
                   Vec::load(a.dy + first + v * Vec::size));
  }
}

/// Rows that are a warp's or a block's.
template <class Op, class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    backward(softmax_gradient::Args<T> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / Row::kThreads;
  if (row >= a.rows) return;  // a whole warp
  backward_row<Op, Row, 1>(a, row, threadIdx.x % Row::kThreads,
                           [](float of_block) { return of_block; });
}

/// Elements of y and as many of dy that a thread holds at most: together what a forward thread
/// holds.
constexpr int kMostHeld = 16;

template <class Op, class T>
void launch_backward(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
  ladder::launch_smallest_row<ladder::Vec128<T>, kMostHeld>(a.cols, [&]<class Row>(Row) {
    ladder::launch(backward<Op, Row, T>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0,
                   stream, a);
  });
}

// Compiled once, in the version that introduces it.
// v31:
extern template void launch_backward<softmax_backward>(const softmax_gradient::Args<float>&,
                                                       cudaStream_t);
extern template void launch_backward<softmax_backward>(const softmax_gradient::Args<ladder::half>&,
                                                       cudaStream_t);
extern template void launch_backward<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);
// v31:
extern template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                           cudaStream_t);
extern template void launch_backward<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
