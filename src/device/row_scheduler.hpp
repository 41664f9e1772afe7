// A dynamic scheduler of rows for persistent clusters: the first rows are assigned statically, the
// rest are drawn from a counter in global memory. Clusters do not all advance at the same speed, and
// with a static partition the fastest would wait for the slowest at the end. The block of rank 0
// draws a row number ahead, and broadcasts it with what the blocks send each other anyway:
//
//   RowScheduler<kBlocks> rows(counters, ahead);              in the launch's state; rows that are
//                                                             issued at the start
//   if (threadIdx.x == 0) for (… i < ahead …) … rows.static_row(i) …
//   for each row {
//     if (threadIdx.x == 0) … rows.next() …                   a row to come
//     … = all_gather.gather({…, rows.to_broadcast()})         see cluster_all_gather.hpp
//     rows.receive(…)                                         from the block of rank 0
//   }
//   rows.leave();
//
// Numbers rise. A cluster has done all of its rows when it takes one that the matrix has not. No
// cluster waits for another.
#pragma once

#include "device/ptx/cluster.hpp"

namespace ladder {

/// State of a launch: all 0 before and after it.
struct RowCounters {
  unsigned drawn, left;  // rows beyond the static ones; clusters that have left
};

template <int kBlocks>
class RowScheduler {
 public:
  __device__ RowScheduler(RowCounters* counters, int ahead)
      : counters_(counters),
        next_(static_row(ahead)),
        to_broadcast_(0),
        drawn_(static_row(ahead + 1)),
        first_drawn_((ahead + 2) * clusters()) {}

  /// The cluster's row number i, of the first ones.
  __device__ static unsigned static_row(int i) { return i * clusters() + blockIdx.x / kBlocks; }

  /// By thread 0, once a row: a row to come.
  __device__ unsigned next() {
    const unsigned row = next_;
    to_broadcast_ = drawn_;  // one row ago, so that nobody waits for it
    if (ptx::cluster_rank() == 0) drawn_ = first_drawn_ + atomicAdd(&counters_->drawn, 1u);
    if (kBlocks == 1) next_ = to_broadcast_;
    return row;
  }

  /// Between two calls of next; a block alone need not.
  __device__ unsigned to_broadcast() const { return __shfl_sync(0xffffffffu, to_broadcast_, 0); }
  __device__ void receive(unsigned from_rank_0) { next_ = from_rank_0; }

  /// By all threads, at the end.
  __device__ void leave() const {
    if (threadIdx.x > 0 || ptx::cluster_rank() > 0) return;
    __threadfence();  // what it has drawn comes before that it has left
    const unsigned last = clusters() - 1;
    if (atomicInc(&counters_->left, last) != last) return;  // from the limit on to 0
    // The others' draws come before.
    __threadfence();
    counters_->drawn = 0;
  }

 private:
  __device__ static unsigned clusters() { return gridDim.x / kBlocks; }

  RowCounters* counters_;
  unsigned next_, to_broadcast_, drawn_;  // thread 0's
  unsigned first_drawn_;                  // behind the static rows of all clusters
};

}  // namespace ladder
