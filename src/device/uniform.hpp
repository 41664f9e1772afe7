// A number that all lanes of a warp have, so that the compiler knows it. What it knows to be the same
// in all lanes may be in uniform registers, from which the copy engine and wgmma take their operands;
// for everything else it moves each descriptor there by itself, in every pass of a loop.
#pragma once

#include "device/kernel.hpp"

#include <cstdint>

namespace ladder {

/// By all lanes of a warp. Of a shuffle from a lane that is the same for all, the result is.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(0xffffffff, x, 0); }
__device__ __forceinline__ unsigned uniform(unsigned x) { return __shfl_sync(0xffffffff, x, 0); }
__device__ __forceinline__ std::uint64_t uniform(std::uint64_t x) {
  return __shfl_sync(0xffffffff, static_cast<unsigned long long>(x), 0);
}
template <class T>
__device__ __forceinline__ T* uniform(T* x) {
  return reinterpret_cast<T*>(uniform(reinterpret_cast<std::uintptr_t>(x)));
}

}  // namespace ladder
