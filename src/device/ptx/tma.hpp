// TMA: the copy engine of a multiprocessor moves whole pieces of memory to and from shared memory.
// One thread asks for a piece, in one instruction; no other thread and no register has part in it.
//
// Loads tell an mbarrier when they have landed: see mbarrier.hpp. Stores are waited for in groups,
// by the thread that asked for them:
//
//   tile[i] = …;                     what is to be stored, written by all threads
//   fence_proxy_async();             each of them lets the copy engine see what it has written
//   __syncthreads();
//   if (threadIdx.x == 0) {
//     tensor_store(&map, x, y, z, tile);
//     bulk_commit_group();           the stores since the last commit are a group
//     bulk_wait_group_read<0>();     they have read the tile: it may be overwritten, and the block
//   }                                may end. Memory is written by the end of the kernel
//
// bulk: a piece without gaps. Addresses and sizes are multiples of 16 bytes.
//
// tensor: a box out of a tensor of up to 5 dimensions, which is described by a CUtensorMap
// (device/tensor_map.hpp), a `const __grid_constant__` parameter of the kernel. Coordinates
// count elements from the tensor's beginning, the innermost dimension first, and are those of the
// box's first element. In shared memory a box has no gaps; it begins at a multiple of 128 bytes, of
// 1024 with the 128-byte swizzle. What of a box lies outside of the tensor is loaded as zeros,
// which count among the bytes that land, and is not stored.
//
// The 128-byte swizzle: boxes are 128 bytes wide, and chunk c (16 bytes) of their row r, counted
// through all outer dimensions, lies in place c ^ (r % 8) of that row. Any one chunk of eight
// consecutive rows then is all 32 banks once.
//
// Compute capability 9.0. PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy"
// and "Tensors".
#pragma once

#include "device/ptx/mbarrier.hpp"

#include <cuda.h>

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

namespace ladder::ptx {

/// Shared memory that this thread has written, and barriers that it has made, are seen by the copy
/// engine (and by wgmma) in whatever is asked for after the next barrier.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes,
                                          Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* global, const void* shared, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(global)),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}

/// A box of a tensor of two dimensions.
__device__ __forceinline__ void tensor_load(void* shared, const CUtensorMap* map, int x, int y,
                                            Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

/// The same into several blocks of a cluster: bit i of `blocks` is for the block of rank i. The box
/// lands at the same place in each of them, and tells the barrier at the same place. Addresses are
/// this block's own.
__device__ __forceinline__ void tensor_load_multicast(void* shared, const CUtensorMap* map, int x,
                                                      int y, Mbarrier* barrier,
                                                      std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
}
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, int x, int y,
                                             const void* shared) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(x), "r"(y), "r"(shared_address(shared))
      : "memory");
}

/// A box of a tensor of three dimensions.
__device__ __forceinline__ void tensor_load(void* shared, const CUtensorMap* map, int x, int y,
                                            int z, Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void tensor_load(void* shared, const CUtensorMap* map, int x, int y,
                                            int z, int w, Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, int x, int y, int z,
                                             const void* shared) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          map),
      "r"(x), "r"(y), "r"(z), "r"(shared_address(shared))
      : "memory");
}

__device__ __forceinline__ void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all but the last kPending groups of this thread's stores have read their shared
/// memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace ladder::ptx

#endif
