// Which rows are a cluster's, of clusters that stay and take row after row: not settled beforehand,
// but for the first ones. They do not all advance at the same speed, and with equal parts the
// fastest would wait for the slowest at the end. The block of rank 0 draws a number for each row to
// come, and tells the others together with what it tells them anyway:
//
//   RowTickets<kBlocks> tickets(ahead);                       rows that are asked for at the start
//   if (threadIdx.x == 0) for (… i < ahead …) … tickets.settled(i) …
//   for each row {
//     if (threadIdx.x == 0) … tickets.take() …                a row to come
//     exchange.tell({…, tickets.to_tell()})                   see cluster_exchange.hpp
//     tickets.told(…)                                         by the block of rank 0
//   }
//   tickets.leave();
//
// Numbers rise. A cluster has done all of its rows when it takes one that the matrix has not.
//
// No two launches of a kernel may overlap: they would draw from the same numbers.
#pragma once

#include "device/ptx/cluster.hpp"

namespace ladder {

template <int kBlocks>
class RowTickets {
 public:
  __device__ explicit RowTickets(int ahead)
      : next_(settled(ahead)),
        to_tell_(0),
        drawn_(settled(ahead + 1)),
        settled_((ahead + 2) * clusters()) {}

  /// The cluster's row number i, for the first ones.
  __device__ static unsigned settled(int i) { return i * clusters() + blockIdx.x / kBlocks; }

  /// By thread 0, once a row: a row to come.
  __device__ unsigned take() {
    const unsigned row = next_;
    to_tell_ = drawn_;  // one row ago, so that nobody waits for it
    if (ptx::cluster_rank() == 0) drawn_ = settled_ + atomicAdd(&numbers().rows, 1u);
    if (kBlocks == 1) next_ = to_tell_;
    return row;
  }

  /// Between two calls of take; a block alone need not.
  __device__ float to_tell() const {
    return __uint_as_float(__shfl_sync(0xffffffffu, to_tell_, 0));
  }
  __device__ void told(float by_rank_0) { next_ = __float_as_uint(by_rank_0); }

  /// By all threads, at the end.
  __device__ void leave() const {
    if (threadIdx.x > 0 || ptx::cluster_rank() > 0) return;
    __threadfence();  // what it has drawn comes before that it has left
    const unsigned last = clusters() - 1;
    if (atomicInc(&numbers().left, last) == last) numbers().rows = 0;  // from the limit on to 0
  }

 private:
  struct Numbers {
    unsigned rows, left;  // 0 between launches
  };
  __device__ static Numbers& numbers() {
    static Numbers one;
    return one;
  }
  __device__ static unsigned clusters() { return gridDim.x / kBlocks; }

  unsigned next_, to_tell_, drawn_;  // thread 0's
  unsigned settled_;                 // rows, of all clusters
};

}  // namespace ladder
