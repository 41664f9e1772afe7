// prefetch.global.L2: asks for a line of global memory, and waits for nothing. The load that needs
// it later finds it in the L2 cache.
//
// PTX ISA, "Data Movement and Conversion Instructions: prefetch". On the host executor, which has
// no caches, it does nothing.
#pragma once

#include "device/kernel.hpp"

namespace ladder::ptx {

inline constexpr int kLineBytes = 128;  // of a cache line

__device__ __forceinline__ void prefetch_l2([[maybe_unused]] const void* global) {
#if !defined(LADDER_HOST_EXECUTOR)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(global)));
#endif
}

}  // namespace ladder::ptx
