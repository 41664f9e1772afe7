// Named barriers: __syncthreads for some of a block's warps.
//
//   named_barrier_sync<64>(1 + threadIdx.x / 64);      each two warps wait for each other only
//
// A block has 16, of which 0 is that of __syncthreads. All threads that meet at one say how many
// they are, whole warps. Those that arrive without waiting count as well: so one warp may wait for
// what another has done, and that one goes on.
//
// PTX ISA, "Parallel Synchronization and Communication Instructions: bar".
#pragma once

#include "device/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

namespace ladder::ptx {

template <int kThreads>
__device__ __forceinline__ void named_barrier_sync(int barrier) {
  static_assert(kThreads % 32 == 0);
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

template <int kThreads>
__device__ __forceinline__ void named_barrier_arrive(int barrier) {
  static_assert(kThreads % 32 == 0);
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace ladder::ptx

#endif
