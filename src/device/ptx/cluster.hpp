// Clusters: blocks that run at the same time on neighbouring multiprocessors, and reach each
// other's shared memory.
//
//   __global__ void __cluster_dims__(2) kernel()      pairs of blocks
//   ladder::launch_in_clusters(kernel, 2, …)          the same, of a kernel that does not say so
//
// What each block has at the same place of its shared memory, as far as the kernel declares it, is
// there in all of them. A rank, from 0 to the number of blocks - 1, names a block of the cluster.
// Addresses of another block's shared memory are made from one's own; they are numbers for the
// instructions below and in tma.hpp, not pointers.
//
//   const unsigned peer = cluster_address(&tile, rank ^ 1);
//
// A block may use another's shared memory when that one has started, and as long as it has not
// ended: cluster_sync() at the beginning and at the end sees to both. At the end it is not needed
// where a block waits by itself for all that others have to do in its memory.
//
// Compute capability 9.0. PTX ISA, "Parallel Synchronization and Communication Instructions:
// barrier.cluster" and "Data Movement and Conversion Instructions: mapa".
#pragma once

#include "device/ptx/mbarrier.hpp"

#include <type_traits>

namespace ladder::ptx {

/// Whether the architecture that is being compiled for has clusters: for kernels in files that are
/// compiled for others too.
#if defined(LADDER_HOST_EXECUTOR) || __CUDA_ARCH__ >= 900
inline constexpr bool kHasClusters = true;
#else
inline constexpr bool kHasClusters = false;
#endif

}  // namespace ladder::ptx

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

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
/// Hands over no more than that this thread has come this far, and barriers after
/// fence_mbarrier_init(): what was written need not have reached the L2.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
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
/// after the next cluster_sync or cluster_arrive and cluster_wait.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives at the barrier of any block of the cluster. It hands over nothing: who waits for it may
/// overwrite what this thread has read, but need not see what it has written. That would take a
/// release in the whole cluster, for which the thread waits until the L2 has its writes: longer
/// than the products of a slice. Before CUDA 12.8 there was nothing else.
__device__ __forceinline__ void mbarrier_arrive_remote(unsigned barrier) {
#if CUDART_VERSION >= 12080
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
#else
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
#endif
}

/// The same, and announces bytes that copies will bring to that block.
__device__ __forceinline__ void mbarrier_arrive_expect_tx_remote(unsigned barrier, unsigned bytes) {
#if CUDART_VERSION >= 12080
  asm volatile(
      "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
#else
  asm volatile(
      "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
#endif
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

/// Stores four floats to any block's shared memory.
__device__ __forceinline__ void cluster_store(unsigned address, float4 v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

/// Adds to a number in any block's shared memory. Returns what was there.
template <class T>
__device__ __forceinline__ T cluster_atomic_add(unsigned address, T value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
  T old;
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("atom.relaxed.cluster.shared::cluster.add.f32 %0, [%1], %2;"
                 : "=f"(old)
                 : "r"(address), "f"(value)
                 : "memory");
  } else {
    asm volatile("atom.relaxed.cluster.shared::cluster.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "r"(address), "r"(value)
                 : "memory");
  }
  return old;
}

/// Copies bytes of this block's shared memory to any block's, and goes on, as bulk_load does
/// (tma.hpp): they tell a barrier of that block.
__device__ __forceinline__ void cluster_copy(unsigned to, const void* shared, unsigned bytes,
                                             unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(shared_address(shared)), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Stores four floats to any block's shared memory, and goes on: they tell a barrier of that block
/// when they have landed, as bytes (mbarrier.hpp).
__device__ __forceinline__ void cluster_store_async(unsigned address, float4 v, unsigned barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
      : "memory");
}

/// Waits for the end of a phase of this block's own barrier, as mbarrier_wait does, and sees what
/// threads of other blocks have stored.
__device__ __forceinline__ void mbarrier_wait_cluster(Mbarrier* barrier, unsigned parity) {
#pragma unroll 1
  for (int tries = 0; tries < 1 << 22; ++tries) {
    unsigned done;
    asm volatile(
        "{\n.reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (done) return;
  }
  __trap();
}

}  // namespace ladder::ptx

#endif

namespace ladder::ptx {

/// Barrier for all threads of a cluster of kBlocks: all blocks have started, and see the barriers that
/// one of their threads has made visible by fence_mbarrier_init(). Copies that are on their way need
/// not have arrived: a cluster_sync() would wait until they are no longer pending.
template <int kBlocks>
__device__ __forceinline__ void cluster_start() {
  __syncthreads();
  if constexpr (kBlocks > 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
}

}  // namespace ladder::ptx
