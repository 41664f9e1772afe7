// What the persistent versions share (device/rows_ahead.hpp): how much of a row a block holds, and
// what the blocks of a cluster send each other for a row. For *.sm90a.cu.
#pragma once

#include "device/cluster_all_gather.hpp"
#include "device/rows_ahead.hpp"
#include "online.hpp"

namespace softmax_rows {

/// A block, from v08c on alone on its SM, holds 16384 elements of a row in registers.
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
  unsigned no_matter = 0;  // fills the 16 bytes
};

}  // namespace softmax_rows
