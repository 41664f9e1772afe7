// The part of CUDA C++ that kernels use, for an ordinary C++ compiler: kernels are compiled a
// second time with this header in front of CUDA's own cuda_fp16.h and cuda_bf16.h, and run by
// executor.hpp.
//
// What has to wait for other threads takes the place of the call as a last, defaulted argument, so
// that an error names the line of the kernel.
//
// Functions that work on a kernel's values are always inlined, so that the accesses they make are
// the kernel's own in the eyes of the compiler, which reports them (hooks.cpp); the executor's own
// work is hidden from it by LADDER_NO_HOOKS.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <source_location>
#include <type_traits>

#include "host_executor/executor.hpp"
#include "host_executor/global_races.hpp"
#include "host_executor/launch_bounds.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/races.hpp"
#include "host_executor/warp.hpp"

// CUDA's headers; they define __global__, __device__, __host__, __constant__ as nothing here.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <driver_types.h>
#include <vector_functions.h>
#include <vector_types.h>

// --- The language ------------------------------------------------------------------------------

#undef __shared__
#if defined(__SANITIZE_ADDRESS__)
#define __shared__ static
#else
// constinit: without it arrays of __half would be initialized at run time, behind a guard.
#define __shared__ constinit thread_local
#endif

// Everything is inlined into a kernel: its accesses are then in the order of its code.
#undef __global__
#define __global__ __attribute__((flatten))

#undef __launch_bounds__
#if defined(__x86_64__) && !defined(__clang__)
// A room of so many bytes in front of the kernel, where launch_bounds.cpp finds it. (The product
// makes the compiler evaluate the name of a constant.)
#define LADDER_ROOM(threads, ...) patchable_function_entry((threads)*1, (threads)*1)
#define __launch_bounds__(...) __attribute__((LADDER_ROOM(__VA_ARGS__, )))
#else
#define __launch_bounds__(...)
#endif
#undef __cluster_dims__
#if defined(__x86_64__) && !defined(__clang__)
// A room of so many bytes behind the kernel's entry.
#define LADDER_ENTRY(blocks, ...) patchable_function_entry((blocks)*1, 0)
#define __cluster_dims__(...) __attribute__((LADDER_ENTRY(__VA_ARGS__, )))
#else
#define __cluster_dims__(...)
#endif
#undef __maxnreg__
#define __maxnreg__(...)
#undef __grid_constant__
#define __grid_constant__

// The executor changes these whenever another thread has its turn. To a kernel they are constant,
// as they are on a GPU, and declared so here, because the compiler then reports no access to them.
// (The two that are dim3 in CUDA would still be reported: dim3 has constructors. Both types
// convert.)
extern const uint3 threadIdx, blockIdx, blockDim, gridDim;
inline constexpr int warpSize = 32;

#define LADDER_INLINE inline __attribute__((always_inline))
#define LADDER_NO_HOOKS __attribute__((noinline, no_sanitize("thread"), no_sanitize_coverage))
#define LADDER_HERE std::source_location at = std::source_location::current()

// --- Synchronization ---------------------------------------------------------------------------

LADDER_INLINE void __syncthreads(LADDER_HERE) { ladder::host::barrier(false, at); }
LADDER_INLINE int __syncthreads_count(int predicate, LADDER_HERE) {
  return static_cast<int>(ladder::host::barrier(predicate != 0, at).yes);
}
LADDER_INLINE int __syncthreads_and(int predicate, LADDER_HERE) {
  const auto votes = ladder::host::barrier(predicate != 0, at);
  return votes.yes == votes.threads;
}
LADDER_INLINE int __syncthreads_or(int predicate, LADDER_HERE) {
  return ladder::host::barrier(predicate != 0, at).yes != 0;
}

LADDER_INLINE void __syncwarp(unsigned mask = 0xffffffffu, LADDER_HERE) {
  ladder::host::syncwarp(mask, at);
}

// One thread runs at a time, and what it writes is seen at once; but other blocks must not rely on it.
LADDER_INLINE void __threadfence() { ladder::host::fence(); }
LADDER_INLINE void __threadfence_block() {}
LADDER_INLINE void __threadfence_system() { ladder::host::fence(); }

LADDER_INLINE long long clock64() { return ladder::host::clock(); }
LADDER_INLINE void __nanosleep(unsigned) {}
[[noreturn]] LADDER_INLINE void __trap() { ladder::host::fail_thread("__trap"); }

// --- Warps -------------------------------------------------------------------------------------

namespace ladder::host {

/// What can be copied bit by bit. (CUDA's pairs of halves can, though they have copy constructors.)
template <class T>
concept Shuffled = std::is_trivially_destructible_v<T> && sizeof(T) <= sizeof(std::uint64_t);

template <Shuffled T>
LADDER_NO_HOOKS T shuffle_value(Shuffle kind, unsigned mask, T value, int amount, int width,
                                std::source_location at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(kind, mask, bits, amount, width, at);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace ladder::host

template <ladder::host::Shuffled T>
LADDER_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32, LADDER_HERE) {
  using namespace ladder::host;
  return shuffle_value(Shuffle::indexed, mask, value, lane, width, at);
}
template <ladder::host::Shuffled T>
LADDER_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                               LADDER_HERE) {
  using namespace ladder::host;
  return shuffle_value(Shuffle::up, mask, value, static_cast<int>(delta), width, at);
}
template <ladder::host::Shuffled T>
LADDER_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                 LADDER_HERE) {
  using namespace ladder::host;
  return shuffle_value(Shuffle::down, mask, value, static_cast<int>(delta), width, at);
}
template <ladder::host::Shuffled T>
LADDER_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                                LADDER_HERE) {
  using namespace ladder::host;
  return shuffle_value(Shuffle::exclusive_or, mask, value, lane_mask, width, at);
}

LADDER_INLINE unsigned __ballot_sync(unsigned mask, int predicate, LADDER_HERE) {
  return ladder::host::vote(ladder::host::Vote::ballot, mask, predicate != 0, at);
}
LADDER_INLINE int __any_sync(unsigned mask, int predicate, LADDER_HERE) {
  return ladder::host::vote(ladder::host::Vote::any, mask, predicate != 0, at) != 0;
}
LADDER_INLINE int __all_sync(unsigned mask, int predicate, LADDER_HERE) {
  return ladder::host::vote(ladder::host::Vote::all, mask, predicate == 0, at) == 0;
}

/// Threads run one at a time, so which lanes are "active" has no better answer than: all that have
/// not ended.
LADDER_INLINE unsigned __activemask() { return ladder::host::lanes_alive(); }

#define LADDER_REDUCE(name, type, kind)                                                    \
  LADDER_INLINE type name(unsigned mask, type value, LADDER_HERE) {                        \
    return static_cast<type>(ladder::host::reduce(ladder::host::Reduce::kind, mask,        \
                                                  static_cast<std::uint32_t>(value), at)); \
  }
LADDER_REDUCE(__reduce_add_sync, unsigned, add)
LADDER_REDUCE(__reduce_min_sync, unsigned, min_unsigned)
LADDER_REDUCE(__reduce_max_sync, unsigned, max_unsigned)
LADDER_REDUCE(__reduce_add_sync, int, add)
LADDER_REDUCE(__reduce_min_sync, int, min_int)
LADDER_REDUCE(__reduce_max_sync, int, max_int)
LADDER_REDUCE(__reduce_and_sync, unsigned, bit_and)
LADDER_REDUCE(__reduce_or_sync, unsigned, bit_or)
LADDER_REDUCE(__reduce_xor_sync, unsigned, bit_xor)
#undef LADDER_REDUCE

// --- Atomics -----------------------------------------------------------------------------------
//
// One thread runs at a time, so a plain read, modification and write is atomic. Each returns the
// old value, and exists for the types for which CUDA has it.

namespace ladder::host {

template <class T, class... Ts>
concept OneOf = (std::same_as<T, Ts> || ...);
template <class T>
concept Half = OneOf<T, __half, __nv_bfloat16>;
template <class T>
concept Half2 = OneOf<T, __half2, __nv_bfloat162>;
template <class T>
concept AtomicInteger = OneOf<T, int, unsigned, unsigned long long>;
template <class T>
concept AtomicOrdered = AtomicInteger<T> || OneOf<T, long long>;
template <class T>
concept AtomicAddable = AtomicInteger<T> || OneOf<T, float, double> || Half<T> || Half2<T>;

template <class T>
using Same = std::type_identity_t<T>;  // of an argument that converts to what another one is

template <class T, class Next>
LADDER_NO_HOOKS T read_modify_write(T* address, Next next) {
  note_access(__builtin_return_address(0), address, sizeof(T), Access::atomic);
  T old;  // copied by bytes: the assignments of CUDA's pairs of halves would be reported, too
  std::memcpy(static_cast<void*>(&old), address, sizeof(T));
  const T changed = next(old);
  changes += std::memcmp(&old, &changed, sizeof(T)) != 0;
  std::memcpy(static_cast<void*>(address), &changed, sizeof(T));
  return old;
}

}  // namespace ladder::host

template <ladder::host::AtomicAddable T>
LADDER_INLINE T atomicAdd(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address, [value](T old) { return T(old + value); });
}
/// Of compute capability 9.0, and global memory: each element by itself is added at once.
LADDER_INLINE float4 atomicAdd(float4* address, float4 value) {
  return ladder::host::read_modify_write(address, [value](float4 old) {
    return float4{old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w};
  });
}
template <ladder::host::OneOf<int, unsigned> T>
LADDER_INLINE T atomicSub(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address, [value](T old) { return old - value; });
}
template <ladder::host::AtomicOrdered T>
LADDER_INLINE T atomicMin(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address,
                                         [value](T old) { return value < old ? value : old; });
}
template <ladder::host::AtomicOrdered T>
LADDER_INLINE T atomicMax(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address,
                                         [value](T old) { return value > old ? value : old; });
}
template <class T>
requires(ladder::host::AtomicInteger<T> || std::same_as<T, float>) LADDER_INLINE T
    atomicExch(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address, [value](T) { return value; });
}
template <class T>
requires(ladder::host::AtomicInteger<T> || std::same_as<T, unsigned short>) LADDER_INLINE T
    atomicCAS(T* address, ladder::host::Same<T> compare, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(
      address, [compare, value](T old) { return old == compare ? value : old; });
}
template <ladder::host::AtomicInteger T>
LADDER_INLINE T atomicAnd(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address, [value](T old) { return old & value; });
}
template <ladder::host::AtomicInteger T>
LADDER_INLINE T atomicOr(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address, [value](T old) { return old | value; });
}
template <ladder::host::AtomicInteger T>
LADDER_INLINE T atomicXor(T* address, ladder::host::Same<T> value) {
  return ladder::host::read_modify_write(address, [value](T old) { return old ^ value; });
}
LADDER_INLINE unsigned atomicInc(unsigned* address, unsigned limit) {
  return ladder::host::read_modify_write(
      address, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
LADDER_INLINE unsigned atomicDec(unsigned* address, unsigned limit) {
  return ladder::host::read_modify_write(
      address, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

// --- Loads and stores with a caching hint, which has no meaning here ---------------------------

#define LADDER_LOAD(name)                  \
  template <class T>                       \
  LADDER_INLINE T name(const T* address) { \
    return *address;                       \
  }
LADDER_LOAD(__ldg)
LADDER_LOAD(__ldca)
LADDER_LOAD(__ldcg)
LADDER_LOAD(__ldcs)
LADDER_LOAD(__ldcv)
LADDER_LOAD(__ldlu)
#undef LADDER_LOAD

#define LADDER_STORE(name)                                             \
  template <class T>                                                   \
  LADDER_INLINE void name(T* address, std::type_identity_t<T> value) { \
    *address = value;                                                  \
  }
LADDER_STORE(__stwb)
LADDER_STORE(__stwt)
LADDER_STORE(__stcg)
LADDER_STORE(__stcs)
#undef LADDER_STORE

// --- Arithmetic the C library has no names for -------------------------------------------------
//
// The fast ones are as precise as the others here: results differ from a GPU's in the last bits.

/// By value, where std::min would take the address of its arguments. Of a number and a NaN it is
/// the number, as in CUDA.
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) LADDER_INLINE
    constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return std::fmin(static_cast<T>(a), static_cast<T>(b));
  else
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) LADDER_INLINE
    constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return std::fmax(static_cast<T>(a), static_cast<T>(b));
  else
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

LADDER_INLINE float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
LADDER_INLINE double rsqrt(double x) { return 1.0 / std::sqrt(x); }
LADDER_INLINE float fdividef(float a, float b) { return a / b; }

LADDER_INLINE float __expf(float x) noexcept { return std::exp(x); }
LADDER_INLINE float __exp10f(float x) noexcept { return std::pow(10.0f, x); }
LADDER_INLINE float __logf(float x) noexcept { return std::log(x); }
LADDER_INLINE float __log2f(float x) noexcept { return std::log2(x); }
LADDER_INLINE float __log10f(float x) noexcept { return std::log10(x); }
LADDER_INLINE float __powf(float x, float y) noexcept { return std::pow(x, y); }
LADDER_INLINE float __sinf(float x) noexcept { return std::sin(x); }
LADDER_INLINE float __cosf(float x) noexcept { return std::cos(x); }
LADDER_INLINE float __tanf(float x) noexcept { return std::tan(x); }
LADDER_INLINE float __tanhf(float x) noexcept { return std::tanh(x); }
LADDER_INLINE float __fdividef(float a, float b) { return a / b; }
LADDER_INLINE float __saturatef(float x) { return std::fmin(std::fmax(x, 0.0f), 1.0f); }

LADDER_INLINE float __fadd_rn(float a, float b) { return a + b; }
LADDER_INLINE float __fsub_rn(float a, float b) { return a - b; }
LADDER_INLINE float __fmul_rn(float a, float b) { return a * b; }
LADDER_INLINE float __fdiv_rn(float a, float b) { return a / b; }
LADDER_INLINE float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
LADDER_INLINE float __frcp_rn(float x) { return 1.0f / x; }
LADDER_INLINE float __fsqrt_rn(float x) { return std::sqrt(x); }
LADDER_INLINE float __frsqrt_rn(float x) { return static_cast<float>(1.0 / std::sqrt(double{x})); }

LADDER_INLINE int __popc(unsigned x) { return std::popcount(x); }
LADDER_INLINE int __popcll(unsigned long long x) { return std::popcount(x); }
LADDER_INLINE int __ffs(int x) { return __builtin_ffs(x); }
LADDER_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
LADDER_INLINE int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
LADDER_INLINE int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
LADDER_INLINE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
LADDER_INLINE int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
LADDER_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}

LADDER_INLINE float __int_as_float(int x) { return std::bit_cast<float>(x); }
LADDER_INLINE float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
LADDER_INLINE int __float_as_int(float x) { return std::bit_cast<int>(x); }
LADDER_INLINE unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
LADDER_INLINE double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
LADDER_INLINE long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }

LADDER_INLINE float __int2float_rn(int x) { return static_cast<float>(x); }
LADDER_INLINE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

namespace ladder::host {

/// An integral x as an int; as on a GPU what is out of range becomes the nearest, and a NaN 0.
LADDER_INLINE int saturated_int(float x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p31f) return std::numeric_limits<int>::max();
  if (x < -0x1p31f) return std::numeric_limits<int>::min();
  return static_cast<int>(x);
}

}  // namespace ladder::host

LADDER_INLINE int __float2int_rn(float x) { return ladder::host::saturated_int(std::nearbyint(x)); }
LADDER_INLINE int __float2int_rz(float x) { return ladder::host::saturated_int(std::trunc(x)); }
LADDER_INLINE int __float2int_rd(float x) { return ladder::host::saturated_int(std::floor(x)); }
LADDER_INLINE int __float2int_ru(float x) { return ladder::host::saturated_int(std::ceil(x)); }

// --- Arithmetic in half precision that CUDA's headers leave out on the host --------------------

/// Computed in double and rounded once, which is what fused means.
LADDER_INLINE __half __hfma(__half a, __half b, __half c) {
  return __double2half(
      std::fma(double{__half2float(a)}, double{__half2float(b)}, double{__half2float(c)}));
}
LADDER_INLINE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __double2bfloat16(std::fma(double{__bfloat162float(a)}, double{__bfloat162float(b)},
                                    double{__bfloat162float(c)}));
}
template <ladder::host::Half2 T>
LADDER_INLINE T __hfma2(T a, T b, T c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define LADDER_HALF_FUNCTION(name, expression)   \
  template <ladder::host::Half T>                \
  LADDER_INLINE T h##name(T value) {             \
    const auto x = static_cast<float>(value);    \
    return T(static_cast<float>(expression));    \
  }                                              \
  template <ladder::host::Half2 T>               \
  LADDER_INLINE T h2##name(T value) {            \
    return {h##name(value.x), h##name(value.y)}; \
  }
LADDER_HALF_FUNCTION(exp, std::exp(x))
LADDER_HALF_FUNCTION(exp2, std::exp2(x))
LADDER_HALF_FUNCTION(exp10, std::pow(10.0f, x))
LADDER_HALF_FUNCTION(log, std::log(x))
LADDER_HALF_FUNCTION(log2, std::log2(x))
LADDER_HALF_FUNCTION(log10, std::log10(x))
LADDER_HALF_FUNCTION(sqrt, std::sqrt(x))
LADDER_HALF_FUNCTION(rsqrt, 1.0f / std::sqrt(x))
LADDER_HALF_FUNCTION(rcp, 1.0f / x)
LADDER_HALF_FUNCTION(sin, std::sin(x))
LADDER_HALF_FUNCTION(cos, std::cos(x))
LADDER_HALF_FUNCTION(tanh, std::tanh(x))
LADDER_HALF_FUNCTION(floor, std::floor(x))
LADDER_HALF_FUNCTION(ceil, std::ceil(x))
LADDER_HALF_FUNCTION(trunc, std::trunc(x))
LADDER_HALF_FUNCTION(rint, std::nearbyint(x))
#undef LADDER_HALF_FUNCTION

#undef LADDER_HERE
#undef LADDER_NO_HOOKS
#undef LADDER_INLINE
