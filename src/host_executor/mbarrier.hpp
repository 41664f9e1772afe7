// Barriers in shared memory: mbarriers, which wait for threads and for bytes, and named barriers.
// What a thread has done before it arrives comes before what those do that have waited.
//
// An mbarrier is an address and what is known of it here; its 8 bytes in shared memory are under
// watch like any others, so that one that nobody has initialised, or that something overwrites, is
// found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "host_executor/races.hpp"

namespace ladder::host {

struct Knowledge;

/// A new block runs.
void reset_mbarriers();

void mbarrier_init(std::uint64_t* barrier, unsigned threads);
/// `bytes` more are to come before the phase ends.
void mbarrier_arrive(std::uint64_t* barrier, std::int64_t bytes);
void mbarrier_arrive(const void* pc, std::uint64_t* barrier, std::int64_t bytes);
void mbarrier_expect_tx(std::uint64_t* barrier, std::int64_t bytes);
void mbarrier_wait(std::uint64_t* barrier, unsigned parity, std::source_location at);
/// Whether the wait would end at once. Asynchronous work goes on, lest it be asked for ever.
bool mbarrier_test(std::uint64_t* barrier, unsigned parity);
void mbarrier_invalidate(std::uint64_t* barrier);

/// Of an asynchronous copy, in shared memory.
struct LandedBytes {
  SharedPart part;
  std::size_t offset, bytes;
};
/// They have landed; `thread` asked for them at that time of its own. They are there for those
/// alone who wait.
void mbarrier_complete(std::uint64_t* barrier, const LandedBytes& landed, unsigned thread,
                       std::uint32_t time);
/// Ends the launch unless the running thread sees an mbarrier there, and the copy engine does if it
/// uses it.
void expect_mbarrier(const void* pc, std::uint64_t* barrier, bool copies);

// Of threads of other blocks, in the selected one:

/// Whether there is an mbarrier, and its bytes are those it was made with.
bool is_mbarrier(const std::uint64_t* barrier, const void* bytes);
/// A thread of the block of this rank arrives, which had last loaded something from here at that
/// time, and announces bytes.
void remote_arrive(const void* pc, std::uint64_t* barrier, const Knowledge& known,
                   std::uint32_t loaded, unsigned rank, std::int64_t bytes);
/// Who waits for the phase comes to know this.
void hand_over(std::uint64_t* barrier, const Knowledge& known);

/// Arrives, and waits for the others or not.
void named_barrier(int barrier, unsigned threads, bool waits, std::source_location at);

}  // namespace ladder::host
