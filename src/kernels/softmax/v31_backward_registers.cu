// Idea      y and dy of the row stay in registers: they are read from memory once, in 128-bit
//           vectors that are all in flight before the first is used
// Vs v30    the traffic is the compulsory 3n; rows of any length in vectors, as in v07
// Bound by  DRAM bandwidth
// Limits    none; matrices start at multiples of 32 bytes. What of a row is beyond 16384 elements,
//           the registers of 1024 threads, is read twice
// Tile      a row is spread over kThreads threads of kElements elements of each input: see
//           device/row_length.hpp
#include "device/row_length.hpp"
#include "gradient.hpp"
#include "launchers.hpp"

namespace softmax_rows {
namespace {

template <class Op, class Row, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    backward(softmax_gradient::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads, kVectors = Row::kVectors, kWarps = kThreads / 32;
  __shared__ float of_warp[kWarps];
  const std::int64_t row = std::int64_t{blockIdx.x} * Row::kRows + threadIdx.x / kThreads;
  if (row >= a.rows) return;  // a whole warp
  const int t = threadIdx.x % kThreads;

  // Thread t takes vectors t, t + kThreads, … of the row; the first threads each also handle one
  // edge element.
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
  const bool has_edge = cut.has_edge(t);
  const std::int64_t edge = row * a.cols + cut.edge_column(t);
  T loaded_y = T(0.0f), loaded_dy = T(0.0f);
  if (has_edge) {
    loaded_y = a.y[edge];
    loaded_dy = a.dy[edge];
  }

  // The sum of this thread's elements …
  const float edge_y = static_cast<float>(loaded_y), edge_dy = static_cast<float>(loaded_dy);
  float sum = summand(Op{}, edge_y, edge_dy);
  auto add = [&](const Vec& y_vec, const Vec& dy_vec) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      sum += summand(Op{}, static_cast<float>(y_vec[e]), static_cast<float>(dy_vec[e]));
    }
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) add(y[k], dy[k]);
#pragma unroll 1  // more would spill
  for (int v = kVectors * kThreads + t; !Row::kHoldsAll && v < cut.vectors; v += kThreads) {
    add(Vec::load(a.y + first + v * Vec::size), Vec::load(a.dy + first + v * Vec::size));
  }

  // … and of the row.
  sum = ladder::warp_sum<32>(sum);
  if constexpr (kWarps > 1) sum = sum_warps(sum, of_warp);

  auto store_gradient = [&](int v, const Vec& y_vec, const Vec& dy_vec) {
    Vec dx;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      dx[e] = T(gradient(Op{}, static_cast<float>(y_vec[e]), static_cast<float>(dy_vec[e]), sum));
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

template <class Op>
struct BackwardRegisters {
  static constexpr ladder::Version version{"128-bit vectors, the row in registers"};

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    launch_backward<Op>(a, stream);
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardRegisters<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace

template <class Op, class T>
void launch_backward(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
  ladder::launch_smallest_row<ladder::Vec128<T>, kMostHeld>(a.cols, [&]<class Row>(Row) {
    ladder::launch(backward<Op, Row, T>, ladder::ceil_div(a.rows, Row::kRows), Row::kBlock, 0,
                   stream, a);
  });
}

// Other versions call it too.
template void launch_backward<softmax_backward>(const softmax_gradient::Args<float>&, cudaStream_t);
template void launch_backward<softmax_backward>(const softmax_gradient::Args<ladder::half>&,
                                                cudaStream_t);
template void launch_backward<softmax_backward>(const softmax_gradient::Args<ladder::bfloat16>&,
                                                cudaStream_t);
template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                    cudaStream_t);
template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<ladder::half>&,
                                                    cudaStream_t);
template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<ladder::bfloat16>&,
                                                    cudaStream_t);

}  // namespace softmax_rows
