// Who accessed a piece of memory, when, and which accesses of a block are in order: __syncthreads
// orders those of its threads, __syncwarp those of the lanes in it, an mbarrier and a named barrier
// what came before an arrival and what comes after a wait; a shuffle orders nothing.
#pragma once

#include "host_executor/counts.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/lanes.hpp"
#include "host_executor/per_block.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ladder::host {

/// Time goes on at every barrier and every new block, and within an epoch for each thread by itself.
/// No two blocks share an epoch.
using Epoch = std::uint32_t;
inline Epoch epoch = 1;
inline Epoch last_epoch = 1;  // of any block
inline Epoch block_began = 1;
inline Epoch cluster_began = 1;  // the block, or the first of its cluster

// Within an epoch a warp's lanes have vector clocks: clocks[a][b] is the time of its own that lane b
// had when a last heard of it, through __syncwarp. A lane's own time is one ahead.
inline std::vector<std::array<std::uint32_t, kWarpSize>> clocks;

/// Whoever reads for a warpgroup's wgmma, behind the block's threads.
inline constexpr unsigned kMostReaders = kMaxThreads / 128;
unsigned first_reader();

/// Behind those, whoever reads and writes this block's shared memory for another block of the
/// cluster (cluster_order.hpp).
unsigned remote_reader(unsigned rank);
unsigned remote_writer(unsigned rank);
bool is_remote(unsigned thread);

inline std::uint32_t own_time(unsigned thread) { return clocks[thread][thread % kWarpSize] + 1; }

/// What a thread knows of those of other warps: the time of each that it had last heard of. By the
/// hearing thread; empty in a block whose warps meet at __syncthreads alone.
using ThreadClock = std::vector<std::uint32_t>;
inline std::vector<ThreadClock> heard;
/// How many threads and others there are.
inline unsigned clock_size = 0;

/// What has arrived at a barrier in shared memory: the running thread's accesses so far and those
/// that it knows of come before what follows a wait.
void release_to(ThreadClock& clock);
void acquire_from(const ThreadClock& clock, unsigned thread);
/// The thread hears of all that another has done until then.
void hear(unsigned thread, unsigned of, std::uint32_t time);
/// Only that a thread was there at a time of its own.
void note_time(ThreadClock& clock, unsigned thread, std::uint32_t time);
/// What the thread does next is later than what it has done.
inline void tick(unsigned thread) { clocks[thread][thread % kWarpSize] = own_time(thread); }

/// Of launches that may overlap there are at most 64.
inline constexpr unsigned kLaunchBits = 6;

/// An access of the past.
struct Touch {
  Epoch epoch;
  std::uint32_t time;
  std::int32_t pc;  // from an address of this binary
  std::uint16_t thread;
  std::uint8_t kind;                  // an Access
  bool pending : 1;                   // an asynchronous write that is not complete
  bool strong : 1;                    // atomic or volatile: one that may meet others of its kind
  std::uint8_t launch : kLaunchBits;  // its number, where launches may overlap, or 0

  static const char* anchor() { return reinterpret_cast<const char*>(&host::epoch); }

  /// By the running thread.
  [[gnu::always_inline]] static Touch now(const void* pc, Access access, bool strong = false) {
    return now(pc, access, thread_number(), strong);
  }
  [[gnu::always_inline]] static Touch now(const void* pc, Access access, unsigned thread,
                                          bool strong) {
    return {.epoch = host::epoch,
            .time = own_time(thread),
            .pc = static_cast<std::int32_t>(static_cast<const char*>(pc) - anchor()),
            .thread = static_cast<std::uint16_t>(thread),
            .kind = static_cast<std::uint8_t>(access),
            .pending = access == Access::async || access == Access::bulk ||
                       access == Access::pushed || access == Access::bulk_write ||
                       access == Access::bulk_reduce,
            .strong = strong,
            .launch = 0};
  }

  Access access() const { return static_cast<Access>(kind); }
  const void* address() const { return anchor() + pc; }  ///< of the code
};
static_assert(sizeof(Touch) == 16);

/// Whether the block is one of several of a cluster.
inline bool in_cluster = false;
/// Whether blocks, of no cluster or of several launches, have gone on after others had begun.
inline bool interleaved = false;

/// Whether an access of the past, one of the running block's if it is not older, happened before what
/// `thread` does now.
inline bool ordered_in_block(const Touch& past, unsigned thread) {
  if (past.epoch != epoch || past.thread == thread) return true;
  if (past.thread / kWarpSize == thread / kWarpSize) {
    return clocks[thread][past.thread % kWarpSize] >= past.time;
  }
  return !heard.empty() && !heard[thread].empty() && heard[thread][past.thread] >= past.time;
}
bool ordered_by_cluster(const Touch& past, unsigned thread);
inline bool ordered(const Touch& past, unsigned thread) {
  return ordered_in_block(past, thread) || (in_cluster && ordered_by_cluster(past, thread));
}

/// What messages call an access, and who made it: "thread (5,0,0)".
const char* name_of(Access access);
std::string name_of(unsigned thread);

/// Two threads of the block race. Ends the launch, unless they are of one warp of several: then a
/// race between warps that follows says better what is missing, a __syncthreads.
void report(const char* memory, const Touch& past, const Touch& now);

/// A race that report() has kept back.
struct WarpRace {
  unsigned thread;  ///< whose error it is
  std::string text;
};

/// The first since the threads of the block last met, if there is one.
std::optional<WarpRace> race_in_warp();

/// Blocks begin, one after the other, that are a cluster if they are several.
void begin_cluster(bool has_several_blocks);

/// A new block is selected, of so many threads.
void begin_block(unsigned threads);

/// The threads of the block have met at __syncthreads.
void order_block();

/// Lanes of a warp, by the bits of `lanes`, have met at __syncwarp.
void order_lanes(unsigned warp, unsigned lanes);

}  // namespace ladder::host
