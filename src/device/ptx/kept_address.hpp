// A kernel's addresses of shared memory are made of its block's place in its cluster, since sm_90 has
// clusters, and the compiler makes them again wherever they are used: three instructions, and the
// others wait for the first of them, S2UR. In a kernel that is bound by latency they add up.
#pragma once

#include "device/ptx/mbarrier.hpp"

namespace ladder::ptx {

/// The same pointer to shared memory, which from here on stays in a register.
template <class T>
__device__ __forceinline__ T* kept_address(T* shared) {
#if !defined(LADDER_HOST_EXECUTOR)
  unsigned address = shared_address(shared);
  asm volatile("" : "+r"(address));
  shared = static_cast<T*>(__cvta_shared_to_generic(address));
#endif
  return shared;
}

}  // namespace ladder::ptx
