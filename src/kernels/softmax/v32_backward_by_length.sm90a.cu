// Idea      a warp, a block or a cluster per row, by its length: v31's kernels, and one of a cluster
// Vs v31    long rows are held by a cluster, and read once; but for twice as long as a block holds,
//           in 16 bits four times, it is faster on an H100 to read a part twice, mostly from the
//           L2. On an H200 so it is in 16 bits at 1024x131072, where log_backward by v31 is 1.37
//           times as fast
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 131072 elements is read twice
// Tile      16 elements of each input per thread; by the elements of a row:
//             up to    512   a warp, four rows to a block of 128 threads
//             up to  32768   a block of 128 to 1024 threads; of 16 bits up to 65536
//             up to 131072   a cluster of 8 blocks of 512 threads, then of 8 blocks of 1024
//             more           the same, and what is not held is read again
#include "cluster.hpp"
#include "gradient.hpp"
#include "launchers.hpp"

namespace softmax_rows {
namespace {

/// The longest rows whose gradient is faster on an H100 by a block, which reads what it does not
/// hold twice, than by a cluster.
template <class T>
constexpr int kLongestBackwardOfBlock = sizeof(T) == 4 ? 32768 : 65536;

template <class Op, class Row, int kBlocks, class T>
__global__ void __launch_bounds__(Row::kBlock, Row::kLeastBlocks) __cluster_dims__(kBlocks)
    backward_cluster(softmax_gradient::Args<T> a) {
  using Vec = typename Row::Vec;
  constexpr int kThreads = Row::kThreads * kBlocks;  // of the cluster
  constexpr int kVectors = Row::kVectors, kWarps = Row::kThreads / 32;
  __shared__ float of_warp[kWarps];
  __shared__ ClusterSlot slot;
  const std::int64_t row = blockIdx.x / kBlocks;
  const int t = ladder::ptx::cluster_rank() * Row::kThreads + threadIdx.x;

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

  // … of the block, and of the row.
  sum = ladder::warp_sum<32>(sum);
  sum = sum_warps(sum, of_warp);
  sum = ladder::warp_sum<kBlocks>(gather<kBlocks>(sum, slot));

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
  ladder::ptx::cluster_wait();  // all blocks have read this one's slot
}

template <class Op>
struct BackwardByLength {
  static constexpr ladder::Version version{"a warp, a block or a cluster, by the row's length"};

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    launch_backward_by_length<Op>(a, stream);
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardByLength<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace

template <class Op, class T>
void launch_backward_by_length(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
  constexpr int kMore = kLongestBackwardOfBlock<T>;
  if (a.cols <= kMore) return launch_backward<Op>(a, stream);  // v31
  launch_smallest_cluster<T, kMostHeld, kMore>(
      a.cols, [&]<class Row, int kBlocks>(Row, std::integral_constant<int, kBlocks>) {
        ladder::launch(backward_cluster<Op, Row, kBlocks, T>, a.rows * kBlocks, Row::kBlock, 0,
                       stream, a);
      });
}

// Other versions call it too.
template void launch_backward_by_length<softmax_backward>(const softmax_gradient::Args<float>&,
                                                          cudaStream_t);
template void launch_backward_by_length<softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
template void launch_backward_by_length<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);
template void launch_backward_by_length<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                              cudaStream_t);
template void launch_backward_by_length<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, cudaStream_t);
template void launch_backward_by_length<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
