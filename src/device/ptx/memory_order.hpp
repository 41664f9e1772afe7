// Acquire and release: a flag by which threads learn what others have written before it.
//
//   data[i] = x;                                         __syncthreads(), if others wrote some of it
//   store_release<Scope::gpu>(flag, 1);
//
//   while (load_acquire<Scope::gpu>(flag) == 0) {}       and here, if others read it
//   y = data[i];
//
// Whoever loads what was stored sees all that the storing thread has written, or has seen, before. A
// scope says among whom: the block, the cluster, the GPU, or the system with its CPUs and other GPUs;
// both threads must be in both scopes. A release is what a __threadfence() and a volatile store are
// together, an acquire a volatile load and a __threadfence(): these are two instructions that order
// no more than they must.
//
// Compute capability 7.0; clusters are of 9.0. PTX ISA, "Memory Consistency Model", "Data Movement
// and Conversion Instructions: ld, st", "Parallel Synchronization and Communication Instructions:
// atom".
#pragma once

#include "device/kernel.hpp"

namespace ladder::ptx {

enum class Scope { block, cluster, gpu, system };

}  // namespace ladder::ptx

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_memory_order.hpp"
#else

// An instruction is `before`, the scope's name, `behind`.
#define LADDER_SCOPED(before, behind, ...)                         \
  if constexpr (kScope == Scope::block) {                          \
    asm volatile(before ".cta" behind __VA_ARGS__ : "memory");     \
  } else if constexpr (kScope == Scope::cluster) {                 \
    asm volatile(before ".cluster" behind __VA_ARGS__ : "memory"); \
  } else if constexpr (kScope == Scope::gpu) {                     \
    asm volatile(before ".gpu" behind __VA_ARGS__ : "memory");     \
  } else {                                                         \
    asm volatile(before ".sys" behind __VA_ARGS__ : "memory");     \
  }

namespace ladder::ptx {

template <Scope kScope>
__device__ __forceinline__ unsigned load_acquire(const unsigned* address) {
  unsigned value;
  LADDER_SCOPED("ld.acquire", ".u32 %0, [%1];", : "=r"(value) : "l"(address))
  return value;
}

template <Scope kScope>
__device__ __forceinline__ void store_release(unsigned* address, unsigned value) {
  LADDER_SCOPED("st.release", ".u32 [%0], %1;", ::"l"(address), "r"(value))
}

/// Both. Returns what was there.
template <Scope kScope>
__device__ __forceinline__ unsigned add_acquire_release(unsigned* address, unsigned value) {
  unsigned before;
  LADDER_SCOPED("atom.acq_rel", ".add.u32 %0, [%1], %2;", : "=r"(before) : "l"(address), "r"(value))
  return before;
}

}  // namespace ladder::ptx

#undef LADDER_SCOPED
#endif
