// What the versions share that give a row to a cluster of blocks: the all-gather of one value per
// block, and the clusters for rows of each length. For *.sm90a.cu.
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/row_length.hpp"

#include <type_traits>

namespace softmax_rows {

/// What a block of a cluster shows the others: shared memory of gather, 16 bytes that one
/// instruction loads.
struct ClusterSlot {
  float4 bytes;
};

/// Lane n gets the value of the block of rank n % kBlocks, through the blocks' slots: thread 0's.
/// cluster_wait() before the end of the kernel keeps the slots until all have been read.
template <int kBlocks, class Value>
__device__ Value gather(const Value& of_block, ClusterSlot& slot) {
  using namespace ladder::ptx;
  static_assert(sizeof(Value) <= sizeof slot);
  if (threadIdx.x == 0) {
    float4 bytes{};
    std::memcpy(&bytes, &of_block, sizeof of_block);
    slot.bytes = bytes;
  }
  cluster_sync();
  const float4 bytes = cluster_load(cluster_address(&slot, threadIdx.x % kBlocks));
  cluster_arrive();
  Value of_rank;
  std::memcpy(&of_rank, &bytes, sizeof of_rank);
  return of_rank;
}

/// Calls launch(Row<…>{}, number of blocks) with the smallest cluster that holds a row of `cols`
/// elements, which are more than kMore, and of which a thread holds kMost. Two blocks of 512 threads
/// fit an SM, so that one loads while the other waits for its cluster. What of a row is beyond the
/// largest cluster is not held.
template <class T, int kMost, int kMore = 0, class Launch>
void launch_smallest_cluster(int cols, Launch launch) {
  using Vec = ladder::Vec128<T>;
  using Half = ladder::Row<Vec, 512, kMost>;  // of an SM
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

}  // namespace softmax_rows
