// Keeps the blocks of a persistent grid in step. Each has as many rows as the others, but SMs don't get
// equal shares of the memory's bandwidth: where all have as many copies in flight as they like, 24 of
// an H100's 132 SMs are done in two thirds of the time, and those that are left at the end are too few
// to keep the DRAM busy. Here a team of threads that is ahead of the average waits before it asks for
// another row, and the others have its share meanwhile.
//
//   __device__ ladder::StepCounters counters;               of the kernel, in its file
//
//   InStep in_step(counters, ahead);
//   for each row {                                          by one thread of each team
//     if (it is the block's first team) in_step.count();
//     if (there is another row to ask for) in_step.wait(), …
//   }
//   in_step.leave();
//
// A row has to take longer than a trip to the L2, a microsecond, and that trip is made while the team
// is busy with the next row: the average it learns is one row old. Rows from a shared counter, as in
// row_scheduler.hpp, need no waiting, but who has which row is another matter in every run, and with
// it the last bits of whatever is summed over rows.
//
// No result depends on it, and each wait ends by itself: a grid whose blocks don't all run at once, or
// two launches that overlap and count together, are only slower. On the host executor, where blocks
// follow each other, nobody waits.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

/// In global memory; all 0 between launches.
struct StepCounters {
  unsigned rows, left;  // that all blocks' first teams are done with; blocks that have left
};

class InStep {
 public:
  /// half_rows: that a team may be ahead of the average, by what it knows of it
  __device__ InStep(StepCounters& counters, int half_rows)
      : counters_(counters), needed_(-static_cast<int>(gridDim.x) * half_rows / 2) {}

  /// By one thread of a block's first team, when it is done with a row.
  __device__ void count() const { atomicAdd(&counters_.rows, 1u); }

  /// By one thread of any team, when it is done with a row and there is another to ask for.
  __device__ void wait() {
#if !defined(LADDER_HOST_EXECUTOR)
    needed_ += static_cast<int>(gridDim.x);
    for (int tries = 0; counted_ < needed_; ++tries) counted_ = tries < kTries ? rows() : kGivenUp;
    if (counted_ < needed_ + static_cast<int>(gridDim.x)) counted_ = rows();  // for the next wait
#endif
  }

  /// By one thread of each block, when all of its teams are done.
  __device__ void leave() const {
    __threadfence();  // the rows it has counted come before that it has left
    const unsigned last = gridDim.x - 1;
    if (atomicInc(&counters_.left, last) == last) counters_.rows = 0;  // from the limit on to 0
  }

 private:
  static constexpr int kTries = 100;  // some 60 us
  static constexpr int kGivenUp = 1 << 30;

  __device__ int rows() const {
    return static_cast<int>(*static_cast<volatile unsigned*>(&counters_.rows));
  }

  StepCounters& counters_;
  int needed_, counted_ = 0;
};

}  // namespace ladder
