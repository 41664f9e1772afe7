// Keeps the blocks of a persistent grid in step. Each has as many rows as the others, but SMs don't get
// equal shares of the memory's bandwidth: where all have as many copies in flight as they like, those
// that share their way to the L2 with fewer others get more, and are done long before them; and at the
// end the slowest are alone, too few to keep the DRAM busy. Here a block that is ahead of the slowest
// waits before it asks for more, and the others have its share meanwhile.
//
//   __shared__ InStep::Storage storage;
//
//   InStep in_step(counters, storage, ahead);               counters: in the launch's state
//   if (threadIdx.x == 0) in_step.init();                   before a barrier of the block
//   …                                                       by each warp that asks for rows:
//   for each step {
//     in_step.next(warp == 0);                              not before the first
//     …                                                     asks for rows
//   }
//   if (warp == 0) in_step.leave();
//
// To ask how far the others are is a trip to the L2: a step has to take longer, and warps that ask for
// rows should do nothing else. Rows from a shared counter, as in row_scheduler.hpp, need no waiting, but
// then who has which row is another matter in every run, and with it the last bits of what is summed
// over rows.
//
// No result depends on it, and each wait ends by itself: a block whose wait was in vain waits no more,
// and counts its steps all the same. Where other launches have half of the SMs, so that half of the
// grid begins when the other half has ended, each block of the first half waits once, for kTries trips
// to the L2, and then goes on at its own pace. On the host executor nobody waits.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

/// State of a launch: all 0 before and after it.
struct StepCounters {
  static constexpr int kSteps = 16;
  struct alignas(128) Counter {
    unsigned number;
  };
  Counter blocks[kSteps];  // that are done with step i, i + kSteps and so on
  Counter left;            // blocks
};

class InStep {
 public:
  using Storage = int;  // in shared memory: the steps that all blocks are done with

  /// ahead: steps that a block may be ahead of the slowest; 0: any, and counters may be null
  __device__ InStep(StepCounters* counters, Storage& storage, int ahead)
      : counters_(counters), done_(storage), ahead_(ahead) {}

  /// By one thread, before a barrier of the block.
  __device__ void init() const { done_ = 0; }

  /// Between one step and the next, by one thread of each warp. One of them, always the same, counts the
  /// block's steps, asks how far the others are, and tells the rest.
  __device__ void next(bool counts) {
    if (ahead_ == 0) return;
    if (counts) atomicAdd(&counters_->blocks[step_ % kSteps].number, 1u);
#if !defined(LADDER_HOST_EXECUTOR)
    const int late = ++step_ - ahead_;
    if (late < 0) return;
    if (counts) {
      const unsigned all = (late / kSteps + 1) * gridDim.x;
      volatile unsigned& blocks = counters_->blocks[late % kSteps].number;
      bool is_done = false;
      for (int tries = 0; tries < kTries && !is_done; ++tries) is_done = blocks >= all;
      if (!is_done) ahead_ = kAny;
      *static_cast<volatile int*>(&done_) = is_done ? late + 1 : kAny;
    } else {
      while (*static_cast<volatile int*>(&done_) <= late) {
      }
    }
#endif
  }

  /// By the thread that counts, after its last step.
  __device__ void leave() const {
    if (ahead_ == 0) return;
    *static_cast<volatile int*>(&done_) = kAny;
    __threadfence();  // the steps it has counted come before that it has left
    const unsigned last = gridDim.x - 1;
    if (atomicInc(&counters_->left.number, last) == last) {  // from the limit on to 0
      // The others' steps come before.
      __threadfence();
      for (auto& blocks : counters_->blocks) blocks.number = 0;
    }
  }

 private:
  static constexpr int kSteps = StepCounters::kSteps;
  static constexpr int kTries = 100;  // trips to the L2: longer than blocks are apart
  static constexpr int kAny = 1 << 30;

  StepCounters* counters_;
  int& done_;
  int ahead_, step_ = 0;
};

}  // namespace ladder
