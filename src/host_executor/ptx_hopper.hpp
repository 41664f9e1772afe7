// What device/ptx/ offers to kernels of compute capability 9.0, carried out by the host executor:
// mbarriers and named barriers (mbarrier.hpp), clusters (cluster.hpp). The copy engine is in
// ptx_tma.hpp, wgmma in ptx_wgmma.hpp.
#pragma once

#include "host_executor/asynchronous.hpp"
#include "host_executor/cluster.hpp"
#include "host_executor/mbarrier.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/races.hpp"
#include "host_executor/setmaxnreg.hpp"

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

LADDER_INLINE void mbarrier_expect_tx(Mbarrier* barrier, unsigned bytes) {
  host::mbarrier_expect_tx(barrier, bytes);
}
LADDER_INLINE void mbarrier_invalidate(Mbarrier* barrier) { host::mbarrier_invalidate(barrier); }
LADDER_INLINE bool mbarrier_test(Mbarrier* barrier, unsigned parity) {
  return host::mbarrier_test(barrier, parity);
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
  host::setmaxnreg_dec(kRegisters);
}
template <int kRegisters>
LADDER_INLINE void setmaxnreg_inc(LADDER_HERE) {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  host::setmaxnreg_inc(kRegisters, at);
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
  host::mbarrier_arrive_remote(barrier, 0);
}
LADDER_INLINE void mbarrier_arrive_expect_tx_remote(unsigned barrier, unsigned bytes) {
  host::mbarrier_arrive_remote(barrier, bytes);
}
LADDER_INLINE float4 cluster_load(unsigned address) {
  float4 v;
  host::cluster_load(&v, address);
  return v;
}
LADDER_INLINE void cluster_store(unsigned address, float4 v) { host::cluster_store(address, &v); }
template <class T>
LADDER_INLINE T cluster_atomic_add(unsigned address, T value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
  return host::cluster_atomic_add(address, value);
}
LADDER_INLINE void cluster_copy(unsigned to, const void* shared, unsigned bytes, unsigned barrier) {
  host::cluster_copy(to, shared, bytes, barrier);
}
LADDER_INLINE void cluster_store_async(unsigned address, float4 v, unsigned barrier) {
  host::cluster_store_async(address, &v, barrier);
}
LADDER_INLINE void mbarrier_wait_cluster(Mbarrier* barrier, unsigned parity, LADDER_HERE) {
  host::mbarrier_wait(barrier, parity, at);
}

void stmatrix(void* row, const std::uint32_t (&fragment)[4], LADDER_HERE);
void stmatrix_transposed(void* row, const std::uint32_t (&fragment)[4], LADDER_HERE);

}  // namespace ladder::ptx

#undef LADDER_HERE
#undef LADDER_INLINE
