// Counts requests, sectors and wavefronts as a GPU's counters do.
//
// Each thread leaves a trace of its accesses and of the basic blocks it enters. Wherever a warp's
// lanes have met, their traces are merged into the instructions that the warp as a whole executed,
// as on a GPU: lanes that took different branches go one after the other and together again where
// the branches join; those that have left a loop wait for those still in it. That order is read off
// the addresses of the code, so a count does not depend on the order in which threads ran.
#pragma once

#include "host_executor/counts.hpp"
#include "host_executor/recorded.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace ladder::host {

/// Whether traces are being recorded.
extern bool counting;

/// Counts what the launches in work() do. If it throws, so does this.
Counters count(const std::function<void()>& work);

// Called by the running thread, while counting:

void trace_access(const void* pc, const void* address, unsigned bytes, Space space, Access access);

/// The access that was traced last is one of these.
void trace_as(Access access);

/// An access to shared memory of the cluster, at the address that it has in the running block;
/// `other` is 0 if it is this one's, and else not.
void trace_cluster_access(const void* pc, const void* address, unsigned bytes, Access access,
                          unsigned other);

/// The access that was traced last is a copy from this address; null if it reads nothing.
void trace_source(const void* address);

/// The thread enters the basic block at pc.
void trace_block(const void* pc);

/// The thread does something else than an access; called while recording (recording.hpp).
void trace_note(const void* pc, Note note, const void* object = nullptr, std::uint64_t detail = 0);

void count_bulk(Access access, const BulkCopies& copy);

/// wgmma reads so many bytes.
void count_product(std::uint64_t bytes);

// Called by the executor, while counting:

/// A block is selected, for the first time maybe.
void begin_traces();

/// The lanes of a warp, by the bits of `lanes`, have met; those of `ended` have ended.
void trace_meeting(unsigned warp, unsigned lanes, unsigned ended);

/// All lanes of the warp have ended.
void merge_traces(unsigned warp);

void count_barrier();
void count_mbarrier_phase();

}  // namespace ladder::host
