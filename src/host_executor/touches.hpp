// Who accessed a piece of memory, when, and which accesses of a block are in order: __syncthreads
// orders those of its threads, __syncwarp those of the lanes in it; a shuffle orders nothing.
#pragma once

#include "host_executor/counts.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/lanes.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace ladder::host {

/// Time goes on at every barrier and every new block, and within an epoch for each thread by itself.
using Epoch = std::uint32_t;
inline Epoch epoch = 1;
inline Epoch block_began = 1;

// Within an epoch a warp's lanes have vector clocks: clocks[a][b] is the time of its own that lane b
// had when a last heard of it, through __syncwarp. A lane's own time is one ahead.
inline std::array<std::array<std::uint32_t, kWarpSize>, kMaxThreads> clocks;

inline std::uint32_t own_time(unsigned thread) { return clocks[thread][thread % kWarpSize] + 1; }

/// An access of the past.
struct Touch {
  Epoch epoch;
  std::uint32_t time;
  std::int32_t pc;  // from an address of this binary
  std::uint16_t thread;
  std::uint8_t kind;  // an Access
  bool pending : 1;   // an asynchronous write that is not complete
  bool strong : 1;    // atomic or volatile: one that may meet others of its kind

  static const char* anchor() { return reinterpret_cast<const char*>(&clocks); }

  /// By the running thread.
  [[gnu::always_inline]] static Touch now(const void* pc, Access access, bool strong = false) {
    const unsigned thread = thread_number();
    return {.epoch = host::epoch,
            .time = own_time(thread),
            .pc = static_cast<std::int32_t>(static_cast<const char*>(pc) - anchor()),
            .thread = static_cast<std::uint16_t>(thread),
            .kind = static_cast<std::uint8_t>(access),
            .pending = access == Access::async,
            .strong = strong};
  }

  Access access() const { return static_cast<Access>(kind); }
  const void* address() const { return anchor() + pc; }  ///< of the code
};
static_assert(sizeof(Touch) == 16);

/// Whether an access of the past, one of the running block's if it is not older, happened before what
/// `thread` does now.
inline bool ordered(const Touch& past, unsigned thread) {
  if (past.epoch != epoch || past.thread == thread) return true;
  return past.thread / kWarpSize == thread / kWarpSize &&
         clocks[thread][past.thread % kWarpSize] >= past.time;
}

/// What messages call an access.
const char* name_of(Access access);

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

/// A new block runs, of so many threads.
void begin_block(unsigned threads);

/// The threads of the block have met at __syncthreads.
void order_block();

/// Lanes of a warp, by the bits of `lanes`, have met at __syncwarp.
void order_lanes(unsigned warp, unsigned lanes);

}  // namespace ladder::host
