// What the versions share whose clusters stay and take row after row (device/rows_ahead.hpp): how
// much a block holds, and what the blocks of a cluster send each other for a row. For *.sm90a.cu.
#pragma once

#include "device/cluster_exchange.hpp"
#include "device/rows_ahead.hpp"
#include "online.hpp"

namespace softmax_rows {

/// A block, alone on its SM, holds 16384 elements of a row in registers.
constexpr int kAheadBlock = 512, kAheadElements = 32;  // threads, and elements of a thread

/// The cluster for rows of this length; none, of 0 blocks, holds more than 131072 elements.
template <class T>
ladder::RowPlan ahead_plan(int cols) {
  return ladder::plan_rows_ahead<T>(cols, kAheadBlock * kAheadElements / ladder::Vec128<T>::size,
                                    0);
}

/// What every block sends to all blocks of its cluster, once a row.
struct alignas(16) RowMessage {
  Online total;            // of the block's columns
  unsigned next_row;       // of the cluster; the block of rank 0 broadcasts it
  unsigned no_matter = 0;  // fills the 16 bytes of an exchange
};

/// The all-gather of the blocks' messages: lane n gets the one of the block of rank n % kBlocks.
template <int kBlocks>
__device__ RowMessage all_gather(ladder::ClusterExchange<kBlocks>& exchange,
                                 const RowMessage& of_block) {
  float4 bytes;
  std::memcpy(&bytes, &of_block, sizeof bytes);
  bytes = exchange.tell(bytes);
  RowMessage of_rank;
  std::memcpy(static_cast<void*>(&of_rank), &bytes, sizeof of_rank);
  return of_rank;
}

}  // namespace softmax_rows
