// Clusters: their barrier, and what a block does in another's shared memory. What that orders is in
// cluster_order.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "host_executor/executor.hpp"

namespace ladder::host {

class RemoteThread;

/// New blocks, so many, are a cluster.
void begin_cluster_barrier(unsigned blocks);
/// One of them is selected.
void begin_block_in_cluster();
/// The running thread, of a cluster, has ended; then its block.
void leave_cluster();
void end_block_in_cluster();

void cluster_arrive(bool releases);
void cluster_wait(std::source_location at);
void cluster_sync(std::source_location at);
void fence_mbarrier_init();

unsigned cluster_address(const void* pointer, unsigned rank);
/// 16 bytes.
void cluster_load(void* to, unsigned address);
void cluster_store(unsigned address, const void* from);
/// Returns what was there.
float cluster_atomic_add(unsigned address, float value);
int cluster_atomic_add(unsigned address, int value);
unsigned cluster_atomic_add(unsigned address, unsigned value);
void mbarrier_arrive_remote(unsigned barrier, std::int64_t bytes);

/// Where an address in the cluster is. Ends the launch if it is outside of a block's shared memory,
/// or misaligned.
struct ClusterPlace {
  unsigned rank;
  SharedRange at;
};
ClusterPlace place_at(const void* pc, const char* operation, unsigned address, std::size_t bytes,
                      Access access);
ClusterPlace place_at(const void* pc, const char* operation, unsigned address, std::size_t bytes,
                      Access access, std::size_t alignment);

/// Of an access to 16 bytes there, while counting.
void trace_cluster(const void* pc, const ClusterPlace& place, Access access);

/// Ends the launch if the running thread, `by` there, may not use the shared memory of another
/// block.
void expect_block(const void* pc, const char* operation, unsigned rank, const RemoteThread& by);
/// Or unless it sees an mbarrier there, and the copy engine does if it uses it. Returns it as its
/// own block knows it.
std::uint64_t* expect_remote_mbarrier(const void* pc, const char* operation,
                                      const ClusterPlace& barrier, const RemoteThread& by,
                                      bool copies);

}  // namespace ladder::host
