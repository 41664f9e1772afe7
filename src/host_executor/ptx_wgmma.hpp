// What device/ptx/wgmma.hpp offers to kernels, carried out by the host executor (warpgroup.hpp). That
// header includes this one, behind the names that are the same on both backends.
#pragma once

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

template <class T>
inline constexpr host::WgmmaType kWgmmaType =
    std::is_same_v<T, __half>          ? host::WgmmaType::f16
    : std::is_same_v<T, __nv_bfloat16> ? host::WgmmaType::bf16
    : std::is_same_v<T, __nv_fp8_e4m3> ? host::WgmmaType::e4m3
    : std::is_same_v<T, __nv_fp8_e5m2> ? host::WgmmaType::e5m2
    : std::is_same_v<T, std::int8_t>   ? host::WgmmaType::s8
    : std::is_same_v<T, std::uint8_t>  ? host::WgmmaType::u8
                                       : host::WgmmaType::tf32;

inline std::uint64_t descriptor_start(const void* matrix) { return host::descriptor_start(matrix); }
template <class... Registers>
LADDER_INLINE void wgmma_fence(Registers&...) {
  host::wgmma_fence();
}
LADDER_INLINE void wgmma_commit_group() { host::wgmma_commit_group(); }
template <int kPending>
LADDER_INLINE void wgmma_wait_group(LADDER_HERE) {
  host::wgmma_wait_group(kPending, false, at);
}
template <int kPending, class D>
LADDER_INLINE void wgmma_wait_group(D&, LADDER_HERE) {
  host::wgmma_wait_group(kPending, true, at);
}
template <int kPending, class D, class A>
LADDER_INLINE void wgmma_wait_group(D&, A&, LADDER_HERE) {
  host::wgmma_wait_group(kPending, true, at);
}
template <int kPending, class D, class D1, class A>
LADDER_INLINE void wgmma_wait_group(D&, D1&, A&, LADDER_HERE) {
  host::wgmma_wait_group(kPending, true, at);
}
template <int kPending, class D, class D1, class A, class A1>
LADDER_INLINE void wgmma_wait_group(D&, D1&, A&, A1&, LADDER_HERE) {
  host::wgmma_wait_group(kPending, true, at);
}
template <int kPending, class D, class D1, class D2, class A, class A1>
LADDER_INLINE void wgmma_wait_group(D&, D1&, D2&, A&, A1&, LADDER_HERE) {
  host::wgmma_wait_group(kPending, true, at);
}
template <int N, Major kMajorA, Major kMajorB, class A, class B = A>
LADDER_INLINE void wgmma(WgmmaSum<A> (&d)[N / 2], std::uint64_t a, std::uint64_t b, bool add) {
  static_assert(kIsWidth<N> && kMultiplies<A, B>);
  static_assert(kLiesAlong<kMajorA, A> && kLiesAlong<kMajorB, B>);
  host::wgmma({kWgmmaType<A>, kWgmmaType<B>, N, static_cast<host::Major>(kMajorA),
               static_cast<host::Major>(kMajorB)},
              d, a, b, add);
}
template <int N, Major kMajorB, class A, class B = A>
LADDER_INLINE void wgmma(WgmmaSum<A> (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                         bool add) {
  static_assert(kIsWidth<N> && kMultiplies<A, B> && kLiesAlong<kMajorB, B>);
  host::wgmma({kWgmmaType<A>, kWgmmaType<B>, N, host::Major::k, static_cast<host::Major>(kMajorB)},
              d, a, b, add);
}

}  // namespace ladder::ptx

#undef LADDER_HERE
#undef LADDER_INLINE
