// mma.sync: D = A * B + C on the tensor cores, one small product of matrices per warp.
//
// The matrices are spread over the registers of the 32 lanes, and which lane has what is fixed. A
// 32-bit register of A or B has two f16 or bf16, neighbours along k with the first in the low half,
// one tf32, or four e4m3. Counted in such words, all types look the same: k is 8 words long.
//
//   A, 16 rows of 8 words                     B, 8 columns of 8 words
//
//   word     0  1  2  3     4  5  6  7        column   0  1  2  3  4  5  6  7
//   row 0    0  1  2  3     0  1  2  3        word 0   0  4  8 12 16 20 24 28
//       1    4  5  6  7     4  5  6  7             1   1  5  9 13 17 21 25 29
//       :        a[0]           a[2]               2   2  6 10 14 18 22 26 30   b[0]
//       7   28 29 30 31    28 29 30 31             3   3  7 11 15 19 23 27 31
//
//       8    0  1  2  3     0  1  2  3             4   0  4  8 12 16 20 24 28
//       :        a[1]           a[3]               :         as above           b[1]
//      15   28 29 30 31    28 29 30 31             7   3  7 11 15 19 23 27 31
//
//   C and D, 16 x 8
//
//   column   0  1    2  3    4  5    6  7
//   row 0    0  0    1  1    2  2    3  3     c[0] in the even columns, c[1] in the odd ones; of
//       :                                     f16 there are two in a register, both in c[0]
//       7   28 28   29 29   30 30   31 31
//       8    0  0    1  1    2  2    3  3     c[2] and c[3]; of f16 c[1]
//       :
//      15   28 28   29 29   30 30   31 31
//
// In other words, lane l with group g = l / 4 and t = l % 4 has
//
//   a[i]   word t + i / 2 * 4 of row g + i % 2 * 8         f32 c[i]   row g + i / 2 * 8,
//   b[i]   word t + i * 4 of column g                                 column 2t + i % 2
//
// ldmatrix.hpp loads A and B that way. All 32 lanes take part, at the same place in the program. D
// may be C. Compute capability 8.0, for e4m3 8.9 and CUDA 12.4; below, the kernel is stopped.
//
// Precision: the products are exact. The tensor cores add them up in groups, each number cut off at
// the last bit of the group's largest, where the host executor adds in fp32, one by one. Both are
// within K * 2^-22 * (|c| + sum |a b|) of the true sum, K being 16, 8 of tf32, or 32 of e4m3. f16
// sums are in addition rounded to f16, on a GPU possibly more than once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/kernel.hpp"

namespace ladder::ptx {

/// Whether the compiler has the product of e4m3.
#if defined(LADDER_HOST_EXECUTOR) || CUDART_VERSION >= 12040
inline constexpr bool kHasMmaE4m3 = true;
#else
inline constexpr bool kHasMmaE4m3 = false;
#endif

}  // namespace ladder::ptx

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx.hpp"
#else

namespace ladder::ptx {

#if __CUDA_ARCH__ >= 800
#define LADDER_MMA_F32(shape_and_types)                                                       \
  asm volatile("mma.sync.aligned." shape_and_types                                            \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"         \
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), \
                 "f"(c[1]), "f"(c[2]), "f"(c[3]))
#else
#define LADDER_MMA_F32(shape_and_types) __trap()
#endif

/// A and B of T, which is half or bfloat16; C and D of float.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2], const float (&c)[4]) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bfloat16>);
  if constexpr (std::is_same_v<T, half>) {
    LADDER_MMA_F32("m16n8k16.row.col.f32.f16.f16.f32");
  } else {
    LADDER_MMA_F32("m16n8k16.row.col.f32.bf16.bf16.f32");
  }
}

/// All of half.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2],
                                             const std::uint32_t (&c)[2]) {
  static_assert(std::is_same_v<T, half>);
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
      " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
#else
  __trap();
#endif
}

/// A and B of tf32: floats, of which the tensor cores ignore the low 13 bits. to_tf32 rounds them
/// to nearest first.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const std::uint32_t (&a)[4],
                                                 const std::uint32_t (&b)[2], const float (&c)[4]) {
  LADDER_MMA_F32("m16n8k8.row.col.f32.tf32.tf32.f32");
}

/// A and B of e4m3. Hopper, whose fp8 units only wgmma reaches, makes halves of them first.
__device__ __forceinline__ void mma_m16n8k32_e4m3(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2],
                                                  const float (&c)[4]) {
#if __CUDA_ARCH__ >= 890 && CUDART_VERSION >= 12040
  LADDER_MMA_F32("m16n8k32.row.col.f32.e4m3.e4m3.f32");
#else
  __trap();
#endif
}

#undef LADDER_MMA_F32

/// The nearest tf32, of two equally near the larger in magnitude: 8 bits of exponent and 10 of
/// mantissa, in the high bits of the register.
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
#if __CUDA_ARCH__ >= 800
  std::uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
#else
  __trap();
#endif
}

}  // namespace ladder::ptx

#endif
