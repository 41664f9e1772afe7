// What device/ptx/ offers to kernels of compute capability 9.0, carried out by the host executor:
// mbarriers and named barriers (mbarrier.hpp), the copy engine (asynchronous.hpp), clusters
// (cluster.hpp), wgmma (warpgroup.hpp).
#pragma once

#include "host_executor/asynchronous.hpp"
#include "host_executor/cluster.hpp"
#include "host_executor/mbarrier.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/races.hpp"
#include "host_executor/warpgroup.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <source_location>
#include <type_traits>

#define LADDER_INLINE inline __attribute__((always_inline))
#define LADDER_HERE std::source_location at = std::source_location::current()

namespace ladder::ptx {

using Mbarrier = std::uint64_t;

LADDER_INLINE unsigned shared_address(const void* p) { return host::shared_address(p); }

LADDER_INLINE void mbarrier_init(Mbarrier* barrier, unsigned threads) {
  host::mbarrier_init(barrier, threads);
}
LADDER_INLINE void mbarrier_arrive_expect_tx(Mbarrier* barrier, unsigned bytes) {
  host::mbarrier_arrive(barrier, bytes);
}
LADDER_INLINE void mbarrier_arrive(Mbarrier* barrier) { host::mbarrier_arrive(barrier, 0); }
LADDER_INLINE void mbarrier_wait(Mbarrier* barrier, unsigned parity, LADDER_HERE) {
  host::mbarrier_wait(barrier, parity, at);
}

template <int kThreads>
LADDER_INLINE void named_barrier_sync(int barrier, LADDER_HERE) {
  static_assert(kThreads % 32 == 0);
  host::named_barrier(barrier, kThreads, true, at);
}
template <int kThreads>
LADDER_INLINE void named_barrier_arrive(int barrier, LADDER_HERE) {
  static_assert(kThreads % 32 == 0);
  host::named_barrier(barrier, kThreads, false, at);
}

template <int kRegisters>
LADDER_INLINE void setmaxnreg_dec() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
}
template <int kRegisters>
LADDER_INLINE void setmaxnreg_inc() {
  setmaxnreg_dec<kRegisters>();
}

LADDER_INLINE void fence_proxy_async() { host::fence_proxy(); }

LADDER_INLINE void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
  host::bulk_load(shared, global, bytes, barrier);
}
LADDER_INLINE void bulk_store(void* global, const void* shared, unsigned bytes) {
  host::bulk_store(global, shared, bytes);
}
LADDER_INLINE void tensor_load(void* shared, const CUtensorMap* map, int x, int y,
                               Mbarrier* barrier) {
  host::tensor_load(shared, map, {x, y}, barrier);
}
LADDER_INLINE void tensor_load(void* shared, const CUtensorMap* map, int x, int y, int z,
                               Mbarrier* barrier) {
  host::tensor_load(shared, map, {x, y, z}, barrier);
}
LADDER_INLINE void tensor_load(void* shared, const CUtensorMap* map, int x, int y, int z, int w,
                               Mbarrier* barrier) {
  host::tensor_load(shared, map, {x, y, z, w}, barrier);
}
LADDER_INLINE void tensor_load_multicast(void* shared, const CUtensorMap* map, int x, int y,
                                         Mbarrier* barrier, std::uint16_t blocks) {
  host::tensor_load_multicast(shared, map, {x, y}, barrier, blocks);
}
LADDER_INLINE void tensor_store(const CUtensorMap* map, int x, int y, const void* shared) {
  host::tensor_store(map, {x, y}, shared);
}
LADDER_INLINE void tensor_store(const CUtensorMap* map, int x, int y, int z, const void* shared) {
  host::tensor_store(map, {x, y, z}, shared);
}
LADDER_INLINE void bulk_commit_group() { host::bulk_commit_group(); }
template <int kPending>
LADDER_INLINE void bulk_wait_group_read() {
  host::bulk_wait_group(kPending);
}

LADDER_INLINE unsigned cluster_rank() { return host::block_rank(); }
LADDER_INLINE void cluster_sync(LADDER_HERE) { host::cluster_sync(at); }
LADDER_INLINE void cluster_arrive() { host::cluster_arrive(true); }
LADDER_INLINE void cluster_arrive_relaxed() { host::cluster_arrive(false); }
LADDER_INLINE void cluster_wait(LADDER_HERE) { host::cluster_wait(at); }
LADDER_INLINE unsigned cluster_address(const void* p, unsigned rank) {
  return host::cluster_address(p, rank);
}
LADDER_INLINE void fence_mbarrier_init() { host::fence_mbarrier_init(); }
LADDER_INLINE void mbarrier_arrive_remote(unsigned barrier) {
  host::mbarrier_arrive_remote(barrier);
}
LADDER_INLINE float4 cluster_load(unsigned address) {
  float4 v;
  host::cluster_load(&v, address);
  return v;
}
LADDER_INLINE void cluster_store_async(unsigned address, float4 v, unsigned barrier) {
  host::cluster_store_async(address, &v, barrier);
}
LADDER_INLINE void mbarrier_wait_cluster(Mbarrier* barrier, unsigned parity, LADDER_HERE) {
  host::mbarrier_wait(barrier, parity, at);
}

void stmatrix(void* row, const std::uint32_t (&fragment)[4], LADDER_HERE);
void stmatrix_transposed(void* row, const std::uint32_t (&fragment)[4], LADDER_HERE);

template <class T>
inline constexpr host::WgmmaType kWgmmaType =
    std::is_same_v<T, __half>          ? host::WgmmaType::f16
    : std::is_same_v<T, __nv_bfloat16> ? host::WgmmaType::bf16
    : std::is_same_v<T, __nv_fp8_e4m3> ? host::WgmmaType::e4m3
                                       : host::WgmmaType::tf32;

LADDER_INLINE std::uint64_t descriptor_start(const void* matrix) {
  return host::descriptor_start(matrix);
}
LADDER_INLINE void wgmma_fence() { host::wgmma_fence(); }
LADDER_INLINE void wgmma_commit_group() { host::wgmma_commit_group(); }
template <int kPending>
LADDER_INLINE void wgmma_wait_group(LADDER_HERE) {
  host::wgmma_wait_group(kPending, false, at);
}
template <int kPending, int kRegisters>
LADDER_INLINE void wgmma_wait_group(float (&)[kRegisters], LADDER_HERE) {
  host::wgmma_wait_group(kPending, true, at);
}
template <int N, auto kMajorA, auto kMajorB, class T>
LADDER_INLINE void wgmma(float (&d)[N / 2], std::uint64_t a, std::uint64_t b, bool add) {
  host::wgmma(
      {kWgmmaType<T>, N, static_cast<host::Major>(kMajorA), static_cast<host::Major>(kMajorB)}, d,
      a, b, add);
}

}  // namespace ladder::ptx

#undef LADDER_HERE
#undef LADDER_INLINE
