// Clusters: blocks that run at the same time on neighbouring multiprocessors, and reach each
// other's shared memory.
//
//   __global__ void __cluster_dims__(2) kernel()      pairs of blocks
//
// What each block has at the same place of its shared memory, as far as the kernel declares it, is
// there in all of them. A rank, from 0 to the number of blocks - 1, names a block of the cluster.
// Addresses of another block's shared memory are made from one's own; they are numbers for the
// instructions below and in tma.hpp, not pointers.
//
//   const unsigned peer = cluster_address(&tile, rank ^ 1);
//
// A block may use another's shared memory when that one has started, and as long as it has not
// ended: cluster_sync() at the beginning and at the end sees to both.
//
// Compute capability 9.0. PTX ISA, "Parallel Synchronization and Communication Instructions:
// barrier.cluster" and "Data Movement and Conversion Instructions: mapa".
#pragma once

#include "harness/ptx/mbarrier.hpp"

namespace ladder::ptx {

/// The running block's.
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Barrier for all threads of all blocks of the cluster: what was written before is seen after it.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

/// Its two halves, between which a thread goes on with what needs no other block: it waits only for
/// threads that have not arrived.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/// Where the block of this rank has what this one has at p.
__device__ __forceinline__ unsigned cluster_address(const void* p, unsigned rank) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(rank));
  return address;
}

/// Makes barriers just made by this thread visible to the cluster, for remote arrivals and copies
/// after the next cluster_sync.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives at the barrier of any block of the cluster. It hands over nothing: who waits for it may
/// overwrite what this thread has read, but need not see what it has written. That would take a
/// release in the whole cluster, for which the thread waits until the L2 has its writes: longer
/// than the products of a slice.
__device__ __forceinline__ void mbarrier_arrive_remote(unsigned barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/// Loads four floats from any block's shared memory.
__device__ __forceinline__ float4 cluster_load(unsigned address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace ladder::ptx
