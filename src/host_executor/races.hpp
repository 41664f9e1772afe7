// Finds what a GPU leaves undefined in shared memory: values that nobody has written, and accesses
// of two threads in no order (touches.hpp).
//
// An asynchronous write, of which cp.async is the first kind, is watched from its issue on: it must
// come after the accesses that were there before, and until it is complete nobody may touch its
// destination. From then on it counts as a store that its thread has just made. A bulk copy is one
// more kind: it is complete for those alone that have waited for its mbarrier.
//
// An asynchronous read, of a bulk store or of wgmma, is watched from its issue to its wait: what it
// reads must not be overwritten, and what threads have stored there takes a fence.proxy.async.
#pragma once

#include "host_executor/counts.hpp"

#include <cstddef>
#include <cstdint>

namespace ladder::host {

class RemoteThread;

/// A part of shared memory, under watch.
enum class SharedPart { fixed, dynamic };

/// While there is one, the running thread may load what nobody has written: it does not use it.
class MayBeUnwritten {
 public:
  MayBeUnwritten();
  ~MayBeUnwritten();
};

/// The running thread accesses shared memory, at an offset into its part; ends the launch if that is
/// undefined. Access::async is the issue of an asynchronous write.
void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access);

/// The same in the selected block, which is not its own.
void watch_remote(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access, const RemoteThread& by);
/// Ends the launch unless the running thread, of another block, knows of what was stored there.
void expect_known(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  const RemoteThread& by);

/// The asynchronous write that the running thread issued there is complete, and the thread knows it.
void complete_async(SharedPart part, std::size_t offset, std::size_t bytes);

/// Someone has waited for the bulk copy to there.
void complete_bulk(SharedPart part, std::size_t offset, std::size_t bytes);

/// Ends the launch if a bulk copy to there, which the running thread reads with `access`, is on its
/// way.
void expect_landed(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                   Access access);

/// What the running thread has stored is seen by asynchronous reads after the next barrier.
void fence_proxy();

/// So are the mbarriers that it has made.
void fence_mbarrier_inits();

/// Ends the launch unless asynchronous reads that the running thread issues see what was stored
/// there. `is_mbarrier`: or what a fence_mbarrier_init has fenced.
void expect_fenced(SharedPart part, std::size_t offset, std::size_t bytes,
                   bool is_mbarrier = false);

/// An asynchronous read (Access::bulk_read or product) is under way there. Returns its number.
std::uint64_t begin_read(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                         Access access);
/// It is done, and counts as a load that `reader` has just made.
void end_read(std::uint64_t number, unsigned reader);

/// A new block runs: forgets reads, fences and what may be unwritten.
void reset_reads();
/// The block ends: ends the launch if asynchronous reads are under way.
void expect_no_reads();

}  // namespace ladder::host
