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
//   }                                may end. Memory is written by the end of the kernel, or when
//                                    bulk_wait_group<0>() has returned
//
// Reductions are stores that add to what is there, or leave the smaller or the larger: each element
// at once, as an atomic operation does it. They may meet others, of any block.
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
// What the PTX ISA does not say, and an H200 does: an innermost coordinate that is no multiple of 16
// bytes, and a negative coordinate of a store or a reduction, are illegal instructions. Where a row of
// the tensor ends within 16 bytes, a store writes all of them.
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

#include <cstdint>
#include <type_traits>

namespace ladder::ptx {

enum class Reduction { add, min, max };

}  // namespace ladder::ptx

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_tma.hpp"
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

/// Reduces to elements of T: sums of float, double, half, bfloat16, int, unsigned and unsigned long
/// long; the least or the largest of half, bfloat16, int, unsigned, long long, unsigned long long.
template <Reduction kReduction, class T>
__device__ __forceinline__ void bulk_reduce(T* global, const T* shared, unsigned bytes) {
#define LADDER_REDUCE(reduction, type, text)                                           \
  if constexpr (kReduction == Reduction::reduction && std::is_same_v<T, type>) {       \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." #reduction text \
                 " [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(global)),           \
                 "r"(shared_address(shared)), "r"(bytes)                               \
                 : "memory");                                                          \
    return;                                                                            \
  }
#define LADDER_REDUCE_EACH(type, text) \
  LADDER_REDUCE(add, type, text) LADDER_REDUCE(min, type, text) LADDER_REDUCE(max, type, text)
#define LADDER_REDUCE_ORDERED(type, text) \
  LADDER_REDUCE(min, type, text) LADDER_REDUCE(max, type, text)
  LADDER_REDUCE(add, float, ".f32")
  LADDER_REDUCE(add, double, ".f64")
  LADDER_REDUCE(add, half, ".noftz.f16")
  LADDER_REDUCE(add, bfloat16, ".noftz.bf16")
  LADDER_REDUCE_ORDERED(half, ".f16")
  LADDER_REDUCE_ORDERED(bfloat16, ".bf16")
  LADDER_REDUCE_EACH(int, ".s32")
  LADDER_REDUCE_EACH(unsigned, ".u32")
  LADDER_REDUCE_ORDERED(long long, ".s64")
  LADDER_REDUCE_EACH(unsigned long long, ".u64")
#undef LADDER_REDUCE_ORDERED
#undef LADDER_REDUCE_EACH
#undef LADDER_REDUCE
}

/// Asks for the map itself, which a block's first copy would otherwise wait for.
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Asks for a piece of global memory to be brought to the L2, and waits for nothing.
__device__ __forceinline__ void bulk_prefetch(const void* global, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(global)),
               "r"(bytes)
               : "memory");
}

// Boxes of tensors of 1 to 5 dimensions:
//
//   tensor_load(shared, map, x, …, barrier)
//   tensor_load_multicast(shared, map, x, …, barrier, blocks)
//                                       The same into several blocks of a cluster: bit i of
//                                       `blocks` is for the block of rank i. The box lands at the
//                                       same place in each of them, and tells the barrier at the
//                                       same place. Addresses are this block's own.
//   tensor_store(map, x, …, shared)
//   tensor_reduce<Reduction::add>(map, x, …, shared)
//                                       of the map's type; what of a box lies outside is left out
//   tensor_prefetch(map, x, …)          to the L2
//
// The first operands are the coordinates; n0 to n3 are the numbers of those that follow.
#define LADDER_ARGUMENTS(...) __VA_ARGS__
#define LADDER_TENSOR(d, coordinates, text, operands, n0, n1, n2, n3)                              \
  __device__ __forceinline__ void tensor_load(void* shared, const CUtensorMap* map, coordinates,   \
                                              Mbarrier* barrier) {                                 \
    asm volatile("cp.async.bulk.tensor." d                                                         \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%" #n0 "], [%" #n1    \
                 ", {" text "}], [%" #n2 "];" ::operands,                                          \
                 "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier))               \
                 : "memory");                                                                      \
  }                                                                                                \
  __device__ __forceinline__ void tensor_load_multicast(void* shared, const CUtensorMap* map,      \
                                                        coordinates, Mbarrier* barrier,            \
                                                        std::uint16_t blocks) {                    \
    asm volatile("cp.async.bulk.tensor." d                                                         \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"    \
                 " [%" #n0 "], [%" #n1 ", {" text "}], [%" #n2 "], %" #n3 ";" ::operands,          \
                 "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)), "h"(blocks)  \
                 : "memory");                                                                      \
  }                                                                                                \
  __device__ __forceinline__ void tensor_store(const CUtensorMap* map, coordinates,                \
                                               const void* shared) {                               \
    asm volatile("cp.async.bulk.tensor." d ".global.shared::cta.tile.bulk_group [%" #n0 ", {" text \
                 "}], [%" #n1 "];" ::operands,                                                     \
                 "l"(map), "r"(shared_address(shared))                                             \
                 : "memory");                                                                      \
  }                                                                                                \
  template <Reduction kReduction>                                                                  \
  __device__ __forceinline__ void tensor_reduce(const CUtensorMap* map, coordinates,               \
                                                const void* shared){                               \
      LADDER_TENSOR_REDUCE(add, d, text, LADDER_ARGUMENTS(operands), n0, n1)                       \
          LADDER_TENSOR_REDUCE(min, d, text, LADDER_ARGUMENTS(operands), n0, n1)                   \
              LADDER_TENSOR_REDUCE(max, d, text, LADDER_ARGUMENTS(operands), n0,                   \
                                   n1)} __device__ __forceinline__ void                            \
  tensor_prefetch(const CUtensorMap* map, coordinates) {                                           \
    asm volatile("cp.async.bulk.prefetch.tensor." d ".L2.global.tile [%" #n0 ", {" text            \
                 "}];" ::operands,                                                                 \
                 "l"(map)                                                                          \
                 : "memory");                                                                      \
  }
#define LADDER_TENSOR_REDUCE(reduction, d, text, operands, n0, n1)                  \
  if constexpr (kReduction == Reduction::reduction) {                               \
    asm volatile("cp.reduce.async.bulk.tensor." d ".global.shared::cta." #reduction \
                 ".tile.bulk_group [%" #n0 ", {" text "}], [%" #n1 "];" ::operands, \
                 "l"(map), "r"(shared_address(shared))                              \
                 : "memory");                                                       \
  }
LADDER_TENSOR("1d", int x, "%0", "r"(x), 1, 2, 3, 4)
LADDER_TENSOR("2d", LADDER_ARGUMENTS(int x, int y), "%0, %1", LADDER_ARGUMENTS("r"(x), "r"(y)), 2,
              3, 4, 5)
LADDER_TENSOR("3d", LADDER_ARGUMENTS(int x, int y, int z), "%0, %1, %2",
              LADDER_ARGUMENTS("r"(x), "r"(y), "r"(z)), 3, 4, 5, 6)
LADDER_TENSOR("4d", LADDER_ARGUMENTS(int x, int y, int z, int v), "%0, %1, %2, %3",
              LADDER_ARGUMENTS("r"(x), "r"(y), "r"(z), "r"(v)), 4, 5, 6, 7)
LADDER_TENSOR("5d", LADDER_ARGUMENTS(int x, int y, int z, int v, int w), "%0, %1, %2, %3, %4",
              LADDER_ARGUMENTS("r"(x), "r"(y), "r"(z), "r"(v), "r"(w)), 5, 6, 7, 8)
#undef LADDER_TENSOR_REDUCE
#undef LADDER_TENSOR
#undef LADDER_ARGUMENTS

__device__ __forceinline__ void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all but the last kPending groups of this thread's stores have read their shared
/// memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Or have written global memory, which this thread then sees. For others it takes a __threadfence.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace ladder::ptx

#endif
