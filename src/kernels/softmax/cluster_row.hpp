// The kernels of forward_row.hpp and backward_row.hpp for rows that are a cluster's: each block
// holds its part of the row in registers, and what the blocks have summed up meets in shared
// memory.
#pragma once

#include "backward_row.hpp"
#include "device/ptx/cluster.hpp"
#include "forward_row.hpp"

#include <type_traits>

namespace softmax_rows {

/// The longest rows that launch_forward holds in registers; launch_backward half of that. Half of
/// these is the most that a cluster's blocks of 512 threads hold each: of these, two fit a
/// multiprocessor, so that one loads while the other waits for its cluster.
constexpr int kLongestForward = 32768;

/// The longest rows whose gradient is faster on an H100 by a block, which reads what it does not
/// hold twice, than by a cluster.
template <class T>
constexpr int kLongestBackwardOfBlock = sizeof(T) == 4 ? 32768 : 65536;

/// Lane n gets what the block of rank n % kBlocks has; cluster_wait() before the end of the kernel
/// keeps the blocks' shared memory until all have read it.
template <int kBlocks>
__device__ float2 gather(float2 of_block) {
  using namespace ladder::ptx;
  __shared__ float4 place;
  if (threadIdx.x == 0) place = {of_block.x, of_block.y, 0, 0};
  cluster_sync();
  const float4 of_rank = cluster_load(cluster_address(&place, threadIdx.x % kBlocks));
  cluster_arrive();
  return {of_rank.x, of_rank.y};
}

template <bool kLog, Mask kMask, class Row, int kBlocks, class T>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    cluster_forward(softmax::Args<T> a) {
  const int t = ladder::ptx::cluster_rank() * Row::kThreads + threadIdx.x;
  forward_row<kLog, kMask, Row, kBlocks>(a, blockIdx.x / kBlocks, t, [](Online of_block) {
    const float2 of_rank = gather<kBlocks>({of_block.max, of_block.sum});
    return merge<kBlocks>({of_rank.x, of_rank.y});
  });
  ladder::ptx::cluster_wait();
}

template <class Op, class Row, int kBlocks, class T>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(Row::kBlock, Row::kLeastBlocks)
    cluster_backward(softmax_gradient::Args<T> a) {
  const int t = ladder::ptx::cluster_rank() * Row::kThreads + threadIdx.x;
  backward_row<Op, Row, kBlocks>(a, blockIdx.x / kBlocks, t, [](float of_block) {
    return ladder::lane_sum<kBlocks>(gather<kBlocks>({of_block, 0}).x);
  });
  ladder::ptx::cluster_wait();
}

/// Calls launch(Row<…>{}, number of blocks) with the smallest cluster that holds a row of `cols`
/// elements, which are more than kMore, and of which a thread holds kMost. What of a row is beyond
/// the largest is not held.
template <class T, int kMost, int kMore = 0, class Launch>
void launch_smallest_cluster(int cols, Launch launch) {
  using Vec = ladder::Vec128<T>;
  using Half = ladder::Row<Vec, 512, kMost>;  // of a multiprocessor
  constexpr int kOfBlock = 512 * kMost;
  if constexpr (kMore < 2 * kOfBlock) {
    if (cols <= 2 * kOfBlock) return launch(Half{}, std::integral_constant<int, 2>{});
  }
  if constexpr (kMore < 4 * kOfBlock) {
    if (cols <= 4 * kOfBlock) return launch(Half{}, std::integral_constant<int, 4>{});
  }
  if constexpr (kMore < 8 * kOfBlock) {
    if (cols <= 8 * kOfBlock) return launch(Half{}, std::integral_constant<int, 8>{});
  }
  launch(ladder::Row<Vec, 1024, kMost, false>{}, std::integral_constant<int, 8>{});
}

template <bool kLog, Mask kMask, class T>
void launch_cluster_forward(const softmax::Args<T>& a, cudaStream_t stream) {
  launch_smallest_cluster<T, 32>(
      a.cols, [&]<class Row, int kBlocks>(Row, std::integral_constant<int, kBlocks>) {
        ladder::launch(cluster_forward<kLog, kMask, Row, kBlocks, T>, a.rows * kBlocks, Row::kBlock,
                       0, stream, a);
      });
}

template <class Op, class T>
void launch_cluster_backward(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
  launch_smallest_cluster<T, kMostHeld, kLongestBackwardOfBlock<T>>(
      a.cols, [&]<class Row, int kBlocks>(Row, std::integral_constant<int, kBlocks>) {
        ladder::launch(cluster_backward<Op, Row, kBlocks, T>, a.rows * kBlocks, Row::kBlock, 0,
                       stream, a);
      });
}

// Compiled once, in the version that introduces it.
// v08:
extern template void launch_cluster_forward<false, Mask::none>(const softmax::Args<float>&,
                                                               cudaStream_t);
extern template void launch_cluster_forward<false, Mask::none>(const softmax::Args<ladder::half>&,
                                                               cudaStream_t);
extern template void launch_cluster_forward<false, Mask::none>(
    const softmax::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace softmax_rows
