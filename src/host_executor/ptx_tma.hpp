// What device/ptx/tma.hpp offers to kernels, carried out by the host executor (asynchronous.hpp).
// That header includes this one, behind the names that are the same on both backends.
#pragma once

#include "host_executor/asynchronous.hpp"
#include "host_executor/ptx_hopper.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#define LADDER_INLINE inline __attribute__((always_inline))

namespace ladder::ptx {

template <class T>
inline constexpr host::ElementType kElementType =
    std::is_same_v<T, __half>          ? host::ElementType::f16
    : std::is_same_v<T, __nv_bfloat16> ? host::ElementType::bf16
    : std::is_same_v<T, float>         ? host::ElementType::f32
    : std::is_same_v<T, double>        ? host::ElementType::f64
    : std::is_same_v<T, int>           ? host::ElementType::s32
    : std::is_same_v<T, unsigned>      ? host::ElementType::u32
    : std::is_same_v<T, long long>     ? host::ElementType::s64
                                       : host::ElementType::u64;

LADDER_INLINE void fence_proxy_async() { host::fence_proxy(); }

LADDER_INLINE void bulk_load(void* shared, const void* global, unsigned bytes, Mbarrier* barrier) {
  host::bulk_load(shared, global, bytes, barrier);
}
LADDER_INLINE void bulk_store(void* global, const void* shared, unsigned bytes) {
  host::bulk_store(global, shared, bytes);
}
template <Reduction kReduction, class T>
LADDER_INLINE void bulk_reduce(T* global, const T* shared, unsigned bytes) {
  constexpr bool kAdds = kReduction == Reduction::add;
  static_assert(kElementType<T> != host::ElementType::s64 || !kAdds);
  static_assert(!(std::is_same_v<T, float> || std::is_same_v<T, double>) || kAdds);
  host::bulk_reduce(static_cast<host::Reduction>(kReduction), kElementType<T>, global, shared,
                    bytes);
}
LADDER_INLINE void bulk_prefetch(const void* global, unsigned bytes) {
  host::bulk_prefetch(global, bytes);
}

#define LADDER_ARGUMENTS(...) __VA_ARGS__
#define LADDER_TENSOR(coordinates, corner)                                                    \
  LADDER_INLINE void tensor_load(void* shared, const CUtensorMap* map, coordinates,           \
                                 Mbarrier* barrier) {                                         \
    host::tensor_load(shared, map, {corner}, barrier);                                        \
  }                                                                                           \
  LADDER_INLINE void tensor_load_multicast(void* shared, const CUtensorMap* map, coordinates, \
                                           Mbarrier* barrier, std::uint16_t blocks) {         \
    host::tensor_load_multicast(shared, map, {corner}, barrier, blocks);                      \
  }                                                                                           \
  LADDER_INLINE void tensor_store(const CUtensorMap* map, coordinates, const void* shared) {  \
    host::tensor_store(map, {corner}, shared);                                                \
  }                                                                                           \
  template <Reduction kReduction>                                                             \
  LADDER_INLINE void tensor_reduce(const CUtensorMap* map, coordinates, const void* shared) { \
    host::tensor_reduce(static_cast<host::Reduction>(kReduction), map, {corner}, shared);     \
  }                                                                                           \
  LADDER_INLINE void tensor_prefetch(const CUtensorMap* map, coordinates) {                   \
    host::tensor_prefetch(map, {corner});                                                     \
  }
LADDER_TENSOR(int x, x)
LADDER_TENSOR(LADDER_ARGUMENTS(int x, int y), LADDER_ARGUMENTS(x, y))
LADDER_TENSOR(LADDER_ARGUMENTS(int x, int y, int z), LADDER_ARGUMENTS(x, y, z))
LADDER_TENSOR(LADDER_ARGUMENTS(int x, int y, int z, int v), LADDER_ARGUMENTS(x, y, z, v))
LADDER_TENSOR(LADDER_ARGUMENTS(int x, int y, int z, int v, int w), LADDER_ARGUMENTS(x, y, z, v, w))
#undef LADDER_TENSOR
#undef LADDER_ARGUMENTS

LADDER_INLINE void prefetch_map(const CUtensorMap*) {}

LADDER_INLINE void bulk_commit_group() { host::bulk_commit_group(); }
template <int kPending>
LADDER_INLINE void bulk_wait_group_read() {
  host::bulk_wait_group(kPending, false);
}
template <int kPending>
LADDER_INLINE void bulk_wait_group() {
  host::bulk_wait_group(kPending, true);
}

}  // namespace ladder::ptx

#undef LADDER_INLINE
