// cp.async: copies from global to shared memory that go past the registers, while the thread goes
// on with other work.
//
//   cp_async<16>(&tile[next][i], &a[j]);   each thread starts copies of its own
//   cp_async_commit_group();               those since the last commit are a group
//   …                                      work on another tile
//   cp_async_wait_group<1>();              all of this thread's groups but the latest one are there
//   __syncthreads();                       and so are the other threads', who have waited too
//
// A copy has 4, 8 or 16 bytes, and both of its addresses are multiples of that. From its start to
// the wait its source must not change, nor its destination be used. Groups end in order. An empty
// one counts as well, so a loop that commits in every turn, even when nothing is left to copy,
// waits for the right group in its last turns too. What is not waited for may never be copied.
//
// Of the source only valid_bytes are read, none if that is 0; the rest of the destination becomes
// zero. The edge of a matrix needs no branch then: 0, and any address that is aligned.
//
// cp_async_if copies all or nothing: then the destination stays as it is. cp_async_streaming is for
// data that nobody reads again soon.
//
// Compute capability 8.0. Below, the copy is made at once and byte by byte: right, but slow.
#pragma once

#include "device/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx.hpp"
#else

namespace ladder::ptx {

/// Copies at once, where there is no cp.async.
template <int kBytes>
__device__ __forceinline__ void copy_now(void* shared, const void* global, int valid_bytes) {
  for (int i = 0; i < kBytes; ++i) {
    static_cast<char*>(shared)[i] = i < valid_bytes ? static_cast<const char*>(global)[i] : 0;
  }
}

/// Leaves the data in L1 as well as in L2, for threads that read it again.
template <int kBytes>
__device__ __forceinline__ void cp_async_ca(void* shared, const void* global,
                                            int valid_bytes = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto from = __cvta_generic_to_global(global);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(to), "l"(from), "n"(kBytes), "r"(valid_bytes)
               : "memory");
#else
  copy_now<kBytes>(shared, global, valid_bytes);
#endif
}

/// Leaves the data in L2 only. For 4 and 8 bytes there is no such copy: they are in L1 too.
template <int kBytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global,
                                         int valid_bytes = kBytes) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const auto from = __cvta_generic_to_global(global);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "r"(valid_bytes)
                 : "memory");
    return;
  }
#endif
  cp_async_ca<kBytes>(shared, global, valid_bytes);
}

/// 16 bytes, or where not `valid` zeros, that are the first to leave the L2. A stream of them takes
/// each other's place there, not that of what other kernels wrote, which would have to go to DRAM
/// first.
///
/// Where the shared address is a register plus a uniform register, as of a static array's element,
/// ptxas 13.0 makes an illegal instruction of it, LDGSTS [R+UR0], desc[UR1]. In a loop over stages it
/// is in a register of its own.
__device__ __forceinline__ void cp_async_streaming(void* shared, const void* global, bool valid) {
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto from = __cvta_generic_to_global(global);
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
               :
               : "r"(to), "l"(from), "r"(valid ? 16 : 0), "l"(policy)
               : "memory");
#else
  copy_now<16>(shared, global, valid ? 16 : 0);
#endif
}

/// A whole copy, or none. Takes fewer instructions than a count of valid bytes, and no branch.
template <int kBytes>
__device__ __forceinline__ void cp_async_if(bool condition, void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if __CUDA_ARCH__ >= 800
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto from = __cvta_generic_to_global(global);
  if constexpr (kBytes == 16) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %0, 0;\n"
        "@p cp.async.cg.shared.global [%1], [%2], 16;\n"
        "}"
        :
        : "r"(int{condition}), "r"(to), "l"(from)
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %0, 0;\n"
        "@p cp.async.ca.shared.global [%1], [%2], %3;\n"
        "}"
        :
        : "r"(int{condition}), "r"(to), "l"(from), "n"(kBytes)
        : "memory");
  }
#else
  if (condition) copy_now<kBytes>(shared, global, kBytes);
#endif
}

/// Makes a group of the copies that the calling thread started since its last group.
__device__ __forceinline__ void cp_async_commit_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits for all groups of the calling thread but the latest kPending.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() {
  static_assert(kPending >= 0);
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

/// Waits for all copies of the calling thread, in a group or not.
__device__ __forceinline__ void cp_async_wait_all() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace ladder::ptx

#endif
