// What the threads of a cluster know of what other blocks do in each other's shared memory.
//
// A thread that waits at the cluster's barrier knows what all threads had done when they arrived.
// One that waits for an mbarrier also knows what those of other blocks had done that arrived or
// stored there, as far as it concerns what may be overwritten: a remote arrival hands over no
// values. That much counts as known to all threads of its block.
//
// In shared memory that is under watch, another block is two more threads (touches.hpp): who reads,
// and who writes asynchronously. In global memory the blocks of a cluster count as ordered with
// each other: it would take the orders of all these together to tell.
#pragma once

#include "host_executor/per_block.hpp"
#include "host_executor/touches.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ladder::host {

/// A time of a thread's, with its epoch; of other blocks, who have no epochs, time alone.
using Stamp = std::uint64_t;
using Stamps = std::vector<Stamp>;  // by thread

/// What has been done, by rank, and phases of the cluster's barrier that have ended.
struct Knowledge {
  unsigned phases = 0;
  std::array<Stamps, kMostBlocks> done{};

  void add(const Knowledge& more);
};

/// A new block of a cluster is selected.
void begin_block_order(unsigned threads);

/// The running thread arrives at the cluster's barrier. Unless it releases what it has done, others
/// may overwrite what it has read, but see no more than the mbarriers that it has made and fenced.
void arrive_in_order(bool releases);
/// It has waited for the last phase that it has arrived in.
void wait_in_order();
/// It ends.
void end_in_order();
/// All have arrived, in all blocks.
void end_phase_in_order(unsigned blocks);

/// The running thread's fence.mbarrier_init.
void fence_inits();

/// What the running thread knows, for whoever waits for it.
Knowledge own_knowledge(unsigned rank);
/// The selected block comes to know it.
void learn(const Knowledge& knowledge);

/// What threads know of other blocks' accesses, all threads of the block now know.
void share_remote_in_block();
/// Whether an access by another block, in the selected block, is known to a thread of it.
bool ordered_after_remote(const Touch& past, unsigned thread);

/// The running thread, that of block `rank`, acts in block `target`, which may then be selected.
class RemoteThread {
 public:
  RemoteThread(unsigned rank, unsigned target);

  unsigned rank() const { return rank_; }
  /// Whether it knows that the target exists.
  bool has_met() const { return phases_ > 0; }
  /// Whether it sees what an access in the target has stored; `may_overwrite`: or only that it is
  /// over.
  bool knows(const Touch& past, bool may_overwrite) const;

 private:
  unsigned rank_, phases_;
  std::span<const Stamp> done_;
};

/// The running thread's last loads from block `target`: it, or one that it tells, has made them
/// then.
void note_remote_load(unsigned target, std::uint32_t time);
std::uint32_t last_remote_load(unsigned target);
/// Its last stores, of the time of who writes there for its block.
void note_remote_store(unsigned target, std::uint32_t time);

/// Whether some thread of the selected block knows all that the block of this rank has loaded from
/// it.
bool knows_loads(unsigned rank);

}  // namespace ladder::host
