// Finds accesses to global memory that are in no order: of threads of one block as in shared memory,
// and of two blocks of a launch, between which only this is an order: the one's access, a
// __threadfence, an atomic operation or volatile store; then an atomic operation or volatile load of
// the same address by the other, a __threadfence, and its access. The fence may be the accessing
// thread's own or, beyond a barrier, the thread's that meets the other block.
//
// What the copy engine writes is on its way until its thread has waited with bulk_wait_group: before
// that, others must not meet it, in whatever order, but reductions and atomic operations may, and
// further stores of the copy engine: boxes overlap where both hold the same.
//
// Blocks run one after another, unless they wait for each other, so that of two that race the earlier
// one has always come first; whether the later one is bound to come later is what is asked. The blocks
// of a cluster count as
// ordered with each other; what they race for among themselves is found in shared memory alone.
//
// Of two launches that may overlap nothing is in order, not even atomic operations: they may share no
// memory that one of them writes. Those of one problem on several devices may: their blocks are in order
// as those of a launch are.
#pragma once

#include "host_executor/counts.hpp"

#include <cstddef>
#include <cstdint>

#include <vector_types.h>

namespace ladder::host {

struct Touch;

/// Whether launches are in progress that may overlap those of other numbers (per_block.hpp).
inline bool launches_overlap = false;
/// Such ones begin, of one problem or not, or have ended.
void begin_overlap(bool of_one_problem);
void end_overlap();

/// What is known of the accesses to an allocation. Loads count from the first store on: most
/// allocations are only read, and cost nothing.
class GlobalShadow {
 public:
  explicit GlobalShadow(std::size_t bytes) : bytes_(bytes) {}
  ~GlobalShadow();
  GlobalShadow(const GlobalShadow&) = delete;
  GlobalShadow& operator=(const GlobalShadow&) = delete;

  /// The running thread accesses it at an offset. `strong`: the access is volatile.
  [[gnu::always_inline]] void watch(const void* pc, std::size_t offset, std::size_t bytes,
                                    Access access, bool strong) {
    if (access == Access::load && writes_ == nullptr && !launches_overlap) return;
    note(pc, offset, bytes, access, strong);
  }
  /// What the running thread's copies are writing there has been written.
  void complete(std::size_t offset, std::size_t bytes);

 private:
  void note(const void* pc, std::size_t offset, std::size_t bytes, Access access, bool strong);
  void expect_own_memory(std::size_t begin, std::size_t end, const Touch& now);
  Touch* make() const;
  void remove(Touch*& touches) const;
  void narrow(unsigned shift);

  std::size_t bytes_;
  unsigned shift_ = 0;          // a piece has 1 << shift_ bytes, as many as the narrowest access
  Touch* writes_ = nullptr;     // by piece: the last
  Touch* reads_[2] = {};        // two of those since, of different threads
  Touch* overlapping_[2] = {};  // two reads, of launches that may overlap
  std::size_t first_ = SIZE_MAX, last_ = 0;  // pieces that were accessed
};

/// The selected launch begins: all that came before it is in order, but for launches that overlap.
void begin_launch();

/// The selected block is block `index` of the launch.
void begin_block_of_launch(uint3 index);

/// Another epoch of the block, of a cluster, begins.
void note_epoch();

/// The running thread has passed a __threadfence.
void fence();

/// The running thread's atomic or volatile access, by which blocks may have met.
void meet_blocks(const void* address, Access access);

/// What some threads know of other blocks, all of the block now know, or all of some lanes.
void share_in_block();
void share_in_warp(unsigned warp, unsigned lanes);
/// Or of all blocks of the cluster.
void share_in_cluster(unsigned blocks_of_cluster);

}  // namespace ladder::host
