// The element types and CUDA's own names, on both backends.
#pragma once

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/cuda_on_cpu.hpp"
#else
#include <cuda_runtime_api.h>
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "device/packed.hpp"
#include "device/tfloat32.hpp"

namespace ladder {

using bfloat16 = __nv_bfloat16;
using half = __half;
using float8_e4m3 = __nv_fp8_e4m3;  // 4 bits of exponent, 3 of mantissa: up to 448, no infinity
using float8_e5m2 = __nv_fp8_e5m2;  // 5 bits of exponent, 2 of mantissa: up to 57344

/// Where a kernel runs.
enum class Backend { cuda, host };

/// Element types, and how users spell them; of i4 and e2m1 two share a byte.
enum class DType { f32, f16, bf16, tf32, e4m3, e5m2, e2m1, f64, i4, i8, i32, i64, u8, u32, u64 };

/// Of the C++ type that elements have in memory.
template <class T>
struct DTypeOf;
template <DType kValue>
struct DTypeIs {
  static constexpr DType value = kValue;
};
template <>
struct DTypeOf<double> : DTypeIs<DType::f64> {};
template <>
struct DTypeOf<float> : DTypeIs<DType::f32> {};
template <>
struct DTypeOf<half> : DTypeIs<DType::f16> {};
template <>
struct DTypeOf<bfloat16> : DTypeIs<DType::bf16> {};
template <>
struct DTypeOf<tfloat32> : DTypeIs<DType::tf32> {};
template <>
struct DTypeOf<float8_e4m3> : DTypeIs<DType::e4m3> {};
template <>
struct DTypeOf<float8_e5m2> : DTypeIs<DType::e5m2> {};
template <>
struct DTypeOf<float4_e2m1x2> : DTypeIs<DType::e2m1> {};
template <>
struct DTypeOf<int4x2> : DTypeIs<DType::i4> {};
template <>
struct DTypeOf<std::int8_t> : DTypeIs<DType::i8> {};
template <>
struct DTypeOf<std::int32_t> : DTypeIs<DType::i32> {};
template <>
struct DTypeOf<std::int64_t> : DTypeIs<DType::i64> {};
template <>
struct DTypeOf<std::uint8_t> : DTypeIs<DType::u8> {};
template <>
struct DTypeOf<std::uint32_t> : DTypeIs<DType::u32> {};
template <>
struct DTypeOf<std::uint64_t> : DTypeIs<DType::u64> {};

#if defined(LADDER_HOST_EXECUTOR)
inline constexpr Backend kBackend = Backend::host;
#else
inline constexpr Backend kBackend = Backend::cuda;
#endif

/// a / b rounded up; for a >= 0 and b > 0.
template <class A, class B>
__host__ __device__ constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

}  // namespace ladder
