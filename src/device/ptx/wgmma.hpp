// wgmma: D = A * B + D on the tensor cores of Hopper, one product of matrices for a warpgroup: four
// neighbouring warps, the first of which has a number divisible by four. B is read from shared
// memory, A from there or from registers, D is in the registers of the 128 threads, and all of it
// happens on its own while the warps go on.
//
//   wgmma_fence();                        registers of D written before this are seen
//   for (int k = 0; k < 4; ++k) {         128 bytes of K, in steps of 32: of f16 64 x N x 64
//     wgmma<N, Major::k, Major::k, T>(d, a + k * wgmma_step(Major::k),
//                                     b + k * wgmma_step(Major::k), first ? k > 0 : true);
//   }
//   wgmma_commit_group();                 the products since the last commit are a group
//   wgmma_wait_group<1>();                all groups but the last one have read A and B
//   …
//   wgmma_wait_group<0>(d);               nothing is under way: D may be read
//
// Products that follow each other may use the same D without a wait: they are carried out in order.
// All 128 threads execute these instructions, at the same place in the program.
//
// Registers of D, and of A, belong to a product from its issue to its wait: no thread reads or
// writes them in between. What threads have written to them before takes a wgmma_fence. Both the
// fence and the wait may be given the registers by name, or the compiler might move what is done to
// them across.
//
//   wgmma_fence(a);                       after the last write to a
//   wgmma<N, Major::mn, T>(d, a, b, true);
//   …
//   wgmma_wait_group<0>(d, a);            d may be read, and a written
//
// D is 64 x N, N being 8, 24 or a multiple of 16 up to 256: in fp32, of integers in s32. Warp w of
// the warpgroup has rows 16 w to 16 w + 15; in it lane l with group g = l / 4 and t = l % 4 has
//
//   d[4 j + i]   row 16 w + g + i / 2 * 8, column 8 j + 2 t + i % 2
//
//   column   0  1    2  3    4  5    6  7      8  9   …
//   row 0    0  0    1  1    2  2    3  3      0  0   …   d[0], d[1]; from column 8 on d[4], d[5]
//       :
//       7   28 28   29 29   30 30   31 31     28 28
//       8    0  0    1  1    2  2    3  3      0  0       d[2], d[3]; from column 8 on d[6], d[7]
//
// which are accumulators of mma_m16n8k16 (mma.hpp), side by side. A in registers is mma's A, of
// warp w rows 16 w to 16 w + 15: four registers for 32 bytes of K. Of 16-bit types those are what
// a D has in the same rows and columns, so that a product's result is the next one's A:
//
//   a[i]   d[8 k + 2 i] and d[8 k + 2 i + 1], for K from 16 k on
//
// A, M x K, and B, K x N, lie in shared memory as slices. Either side of a slice may be the one
// whose neighbours are neighbours in memory; of types that are not 16 bits wide only K may be.
//
//   Major::k    A as [M][R], B as [N][R]                            rows of R elements along K
//   Major::mn   A as [M / 64][K][64], B as [N / 64][K][64]          K rows, each 64 along M or N
//
// Rows are 128 bytes, and chunk c (16 bytes) of row r lies in place c ^ (r % 8): the 128-byte
// swizzle, as TMA writes it (tma.hpp). Along K they may also be 64 bytes, and then chunk c lies in
// place c ^ (r / 2 % 4): the 64-byte swizzle. Slices begin at multiples of 1024 bytes.
//
// A descriptor says where such a matrix lies, in units of 16 bytes:
//
//   bits  0–13   where it begins
//        16–29   leading offset: mn from 64 elements of M or N to the next; k not used
//        32–45   stride offset: from 8 rows to the next, rows being of M or N (k) or of K (mn)
//        62–63   the swizzle: 1 for 128 bytes, 2 for 64
//
// The hardware applies the swizzle to the bits of the address, not to places in the matrix: so the
// K of the next product is found by adding to the beginning. A product takes 32 bytes of K: 16
// elements of f16 and bf16, 8 of tf32, 32 of e4m3, e5m2, s8 and u8. Where K is the major one they
// are 32 bytes further into the rows, else 16 rows further down.
//
// Precision: as in mma.hpp, sums are in fp32, cut off where mma's are. Of e4m3 they keep no more
// than 13 bits behind the first bit of the largest number added; of e5m2 the host executor takes the
// same for granted. tf32 are floats whose 13 last bits are not looked at. Integers are exact, and
// wrap around.
//
// Compute capability 9.0a. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "device/ptx/mbarrier.hpp"

#include <cstdint>
#include <type_traits>

namespace ladder::ptx {

/// Along which index neighbours are neighbours in memory: K, or M (of A) and N (of B).
enum class Major { k, mn };

/// The bits of a descriptor that say where the matrix begins.
__device__ inline std::uint64_t descriptor_start(const void* matrix);

/// The descriptor of a matrix in shared memory with rows of kRow bytes. In mn the next 64 of M or N
/// are kLeading bytes further on: 8192 where slices are 64 elements of K deep.
template <Major kMajor, int kRow = 128, int kLeading = 8192>
__device__ __forceinline__ std::uint64_t wgmma_descriptor(const void* matrix) {
  static_assert(kRow == 128 || (kRow == 64 && kMajor == Major::k));
  constexpr std::uint64_t kSwizzle = kRow == 128 ? 1 : 2, kStride = 8 * kRow / 16;
  constexpr std::uint64_t kOffset = kMajor == Major::mn ? kLeading / 16 : 0;
  return kSwizzle << 62 | kStride << 32 | kOffset << 16 | descriptor_start(matrix);
}
/// What a descriptor grows by for the K of the next product.
__device__ constexpr std::uint64_t wgmma_step(Major major) {
  return (major == Major::mn ? 16 * 128 : 32) / 16;
}

/// What D is of where A is of T.
template <class T>
using WgmmaSum = std::conditional_t<std::is_integral_v<T>, std::int32_t, float>;

template <class T, class... Ts>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Ts> || ...);
/// Whether there are products of A and B.
template <class A, class B>
inline constexpr bool kMultiplies =
    (std::is_same_v<A, B> && kIsOneOf<A, half, bfloat16, tfloat32>) ||
    (kIsOneOf<A, float8_e4m3, float8_e5m2> && kIsOneOf<B, float8_e4m3, float8_e5m2>) ||
    (kIsOneOf<A, std::int8_t, std::uint8_t> && kIsOneOf<B, std::int8_t, std::uint8_t>);
/// Whether a matrix of T may lie along this index.
template <Major kMajor, class T>
inline constexpr bool kLiesAlong = kMajor == Major::k || kIsOneOf<T, half, bfloat16>;
/// Whether D may be N wide: what integers have too.
template <int N>
inline constexpr bool kIsWidth = N == 8 || N == 24 || (N > 0 && N <= 256 && N % 16 == 0);

}  // namespace ladder::ptx

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_wgmma.hpp"
#else

namespace ladder::ptx {

__device__ inline std::uint64_t descriptor_start(const void* matrix) {
  return (shared_address(matrix) & 0x3ffff) / 16;
}

/// What the compiler does to these registers stays before or behind this.
template <class Registers>
__device__ __forceinline__ void keep_in_order(Registers& registers) {
  if constexpr (std::is_array_v<Registers>) {
#pragma unroll
    for (unsigned i = 0; i < std::extent_v<Registers>; ++i) keep_in_order(registers[i]);
  } else if constexpr (std::is_same_v<Registers, float>) {
    asm volatile("" : "+f"(registers)::"memory");
  } else {
    asm volatile("" : "+r"(registers)::"memory");
  }
}

/// What threads have written to registers of A and D, and what they have read, is done before
/// products that follow.
template <class... Registers>
__device__ __forceinline__ void wgmma_fence(Registers&... registers) {
  (keep_in_order(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the last kPending groups of this warpgroup's products are done. Sums that
/// are read afterwards are given by name, or the compiler might read them before.
template <int kPending, class... Registers>
__device__ __forceinline__ void wgmma_wait_group(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  (keep_in_order(registers), ...);
}

// The instruction takes each register of D as an operand of its own: "%0" to "%127".
// clang-format off
#define LADDER_TEXT_4 "%0, %1, %2, %3"
#define LADDER_TEXT_8 LADDER_TEXT_4 ", %4, %5, %6, %7"
#define LADDER_TEXT_12 LADDER_TEXT_8 ", %8, %9, %10, %11"
#define LADDER_TEXT_16 LADDER_TEXT_12 ", %12, %13, %14, %15"
#define LADDER_TEXT_24 LADDER_TEXT_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define LADDER_TEXT_32 LADDER_TEXT_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LADDER_TEXT_40 LADDER_TEXT_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LADDER_TEXT_48 LADDER_TEXT_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LADDER_TEXT_56 LADDER_TEXT_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LADDER_TEXT_64 LADDER_TEXT_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LADDER_TEXT_72 LADDER_TEXT_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LADDER_TEXT_80 LADDER_TEXT_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LADDER_TEXT_88 LADDER_TEXT_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define LADDER_TEXT_96 LADDER_TEXT_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LADDER_TEXT_104 LADDER_TEXT_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define LADDER_TEXT_112 LADDER_TEXT_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define LADDER_TEXT_120 LADDER_TEXT_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define LADDER_TEXT_128 LADDER_TEXT_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define LADDER_FOUR(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define LADDER_SUMS_4(c) LADDER_FOUR(c, 0)
#define LADDER_SUMS_8(c) LADDER_SUMS_4(c), LADDER_FOUR(c, 4)
#define LADDER_SUMS_12(c) LADDER_SUMS_8(c), LADDER_FOUR(c, 8)
#define LADDER_SUMS_16(c) LADDER_SUMS_12(c), LADDER_FOUR(c, 12)
#define LADDER_SUMS_24(c) LADDER_SUMS_16(c), LADDER_FOUR(c, 16), LADDER_FOUR(c, 20)
#define LADDER_SUMS_32(c) LADDER_SUMS_24(c), LADDER_FOUR(c, 24), LADDER_FOUR(c, 28)
#define LADDER_SUMS_40(c) LADDER_SUMS_32(c), LADDER_FOUR(c, 32), LADDER_FOUR(c, 36)
#define LADDER_SUMS_48(c) LADDER_SUMS_40(c), LADDER_FOUR(c, 40), LADDER_FOUR(c, 44)
#define LADDER_SUMS_56(c) LADDER_SUMS_48(c), LADDER_FOUR(c, 48), LADDER_FOUR(c, 52)
#define LADDER_SUMS_64(c) LADDER_SUMS_56(c), LADDER_FOUR(c, 56), LADDER_FOUR(c, 60)
#define LADDER_SUMS_72(c) LADDER_SUMS_64(c), LADDER_FOUR(c, 64), LADDER_FOUR(c, 68)
#define LADDER_SUMS_80(c) LADDER_SUMS_72(c), LADDER_FOUR(c, 72), LADDER_FOUR(c, 76)
#define LADDER_SUMS_88(c) LADDER_SUMS_80(c), LADDER_FOUR(c, 80), LADDER_FOUR(c, 84)
#define LADDER_SUMS_96(c) LADDER_SUMS_88(c), LADDER_FOUR(c, 88), LADDER_FOUR(c, 92)
#define LADDER_SUMS_104(c) LADDER_SUMS_96(c), LADDER_FOUR(c, 96), LADDER_FOUR(c, 100)
#define LADDER_SUMS_112(c) LADDER_SUMS_104(c), LADDER_FOUR(c, 104), LADDER_FOUR(c, 108)
#define LADDER_SUMS_120(c) LADDER_SUMS_112(c), LADDER_FOUR(c, 112), LADDER_FOUR(c, 116)
#define LADDER_SUMS_128(c) LADDER_SUMS_120(c), LADDER_FOUR(c, 120), LADDER_FOUR(c, 124)
// By N: how many registers D has, which is the number of the next operand, and those that follow.
#define LADDER_EVERY_N(X) \
  X(8, 4, 5, 6, 7, 8, 9, 10) \
  X(16, 8, 9, 10, 11, 12, 13, 14) \
  X(24, 12, 13, 14, 15, 16, 17, 18) \
  X(32, 16, 17, 18, 19, 20, 21, 22) \
  X(48, 24, 25, 26, 27, 28, 29, 30) \
  X(64, 32, 33, 34, 35, 36, 37, 38) \
  X(80, 40, 41, 42, 43, 44, 45, 46) \
  X(96, 48, 49, 50, 51, 52, 53, 54) \
  X(112, 56, 57, 58, 59, 60, 61, 62) \
  X(128, 64, 65, 66, 67, 68, 69, 70) \
  X(144, 72, 73, 74, 75, 76, 77, 78) \
  X(160, 80, 81, 82, 83, 84, 85, 86) \
  X(176, 88, 89, 90, 91, 92, 93, 94) \
  X(192, 96, 97, 98, 99, 100, 101, 102) \
  X(208, 104, 105, 106, 107, 108, 109, 110) \
  X(224, 112, 113, 114, 115, 116, 117, 118) \
  X(240, 120, 121, 122, 123, 124, 125, 126) \
  X(256, 128, 129, 130, 131, 132, 133, 134)
// clang-format on

// Behind D come whether it is added, then descriptors and registers: `ab` is their text. `c` is how
// the registers of D are held.
#define LADDER_WGMMA(n, r, kinds, c, ab, tail, ...)                                    \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #r                             \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n kinds " {" LADDER_TEXT_##r \
               "}, " ab ", add" tail ";\n}"                                            \
               : LADDER_SUMS_##r(c)                                                    \
               : "r"(unsigned{add}), __VA_ARGS__)
#define LADDER_ELSE_IF(a_type, b_type, ...)                                  \
  else if constexpr (std::is_same_v<A, a_type> && std::is_same_v<B, b_type>) \
      LADDER_WGMMA(__VA_ARGS__)
// Of types that lie along K alone
#define LADDER_WGMMA_ALONG_K(n, r, ab, ...)                                                      \
  LADDER_ELSE_IF(tfloat32, tfloat32, n, r, "k8.f32.tf32.tf32", "+f", ab, ", 1, 1", __VA_ARGS__); \
  LADDER_ELSE_IF(float8_e4m3, float8_e4m3, n, r, "k32.f32.e4m3.e4m3", "+f", ab, ", 1, 1",        \
                 __VA_ARGS__);                                                                   \
  LADDER_ELSE_IF(float8_e4m3, float8_e5m2, n, r, "k32.f32.e4m3.e5m2", "+f", ab, ", 1, 1",        \
                 __VA_ARGS__);                                                                   \
  LADDER_ELSE_IF(float8_e5m2, float8_e4m3, n, r, "k32.f32.e5m2.e4m3", "+f", ab, ", 1, 1",        \
                 __VA_ARGS__);                                                                   \
  LADDER_ELSE_IF(float8_e5m2, float8_e5m2, n, r, "k32.f32.e5m2.e5m2", "+f", ab, ", 1, 1",        \
                 __VA_ARGS__);                                                                   \
  LADDER_ELSE_IF(std::int8_t, std::int8_t, n, r, "k32.s32.s8.s8", "+r", ab, "", __VA_ARGS__);    \
  LADDER_ELSE_IF(std::int8_t, std::uint8_t, n, r, "k32.s32.s8.u8", "+r", ab, "", __VA_ARGS__);   \
  LADDER_ELSE_IF(std::uint8_t, std::int8_t, n, r, "k32.s32.u8.s8", "+r", ab, "", __VA_ARGS__);   \
  LADDER_ELSE_IF(std::uint8_t, std::uint8_t, n, r, "k32.s32.u8.u8", "+r", ab, "", __VA_ARGS__);

#define LADDER_FROM_SHARED(n, r, r1, r2, r3, r4, r5, r6)                                 \
  if constexpr (N != n) {                                                                \
  }                                                                                      \
  LADDER_ELSE_IF(half, half, n, r, "k16.f32.f16.f16", "+f", "%" #r1 ", %" #r2,           \
                 ", 1, 1, %" #r3 ", %" #r4, "l"(a), "l"(b), "n"(kMajorA == Major::mn),   \
                 "n"(kMajorB == Major::mn));                                             \
  LADDER_ELSE_IF(bfloat16, bfloat16, n, r, "k16.f32.bf16.bf16", "+f", "%" #r1 ", %" #r2, \
                 ", 1, 1, %" #r3 ", %" #r4, "l"(a), "l"(b), "n"(kMajorA == Major::mn),   \
                 "n"(kMajorB == Major::mn));                                             \
  LADDER_WGMMA_ALONG_K(n, r, "%" #r1 ", %" #r2, "l"(a), "l"(b))

#define LADDER_FROM_REGISTERS(n, r, r1, r2, r3, r4, r5, r6)                                    \
  if constexpr (N != n) {                                                                      \
  }                                                                                            \
  LADDER_ELSE_IF(half, half, n, r, "k16.f32.f16.f16", "+f", LADDER_TEXT_A(r1, r2, r3, r4, r5), \
                 ", 1, 1, %" #r6, LADDER_A, "n"(kMajorB == Major::mn));                        \
  LADDER_ELSE_IF(bfloat16, bfloat16, n, r, "k16.f32.bf16.bf16", "+f",                          \
                 LADDER_TEXT_A(r1, r2, r3, r4, r5), ", 1, 1, %" #r6, LADDER_A,                 \
                 "n"(kMajorB == Major::mn));                                                   \
  LADDER_WGMMA_ALONG_K(n, r, LADDER_TEXT_A(r1, r2, r3, r4, r5), LADDER_A)
#define LADDER_TEXT_A(r1, r2, r3, r4, r5) "{%" #r2 ", %" #r3 ", %" #r4 ", %" #r5 "}, %" #r1
#define LADDER_A "l"(b), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

/// D = A * B + D, or A * B if not `add`: 64 x N, with 32 bytes of K. a and b are descriptors of
/// matrices of A and B: half, bfloat16, tfloat32, both the same; float8_e4m3 and float8_e5m2,
/// std::int8_t and std::uint8_t.
template <int N, Major kMajorA, Major kMajorB, class A, class B = A>
__device__ __forceinline__ void wgmma(WgmmaSum<A> (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                      bool add) {
  static_assert(kIsWidth<N> && kMultiplies<A, B>);
  static_assert(kLiesAlong<kMajorA, A> && kLiesAlong<kMajorB, B>);
  LADDER_EVERY_N(LADDER_FROM_SHARED)
}
/// The same with A in registers.
template <int N, Major kMajorB, class A, class B = A>
__device__ __forceinline__ void wgmma(WgmmaSum<A> (&d)[N / 2], const std::uint32_t (&a)[4],
                                      std::uint64_t b, bool add) {
  static_assert(kIsWidth<N> && kMultiplies<A, B> && kLiesAlong<kMajorB, B>);
  LADDER_EVERY_N(LADDER_FROM_REGISTERS)
}

#undef LADDER_A
#undef LADDER_TEXT_A
#undef LADDER_FROM_REGISTERS
#undef LADDER_FROM_SHARED
#undef LADDER_WGMMA_ALONG_K
#undef LADDER_ELSE_IF
#undef LADDER_WGMMA
#undef LADDER_EVERY_N
#undef LADDER_SUMS_128
#undef LADDER_SUMS_120
#undef LADDER_SUMS_112
#undef LADDER_SUMS_104
#undef LADDER_SUMS_96
#undef LADDER_SUMS_88
#undef LADDER_SUMS_80
#undef LADDER_SUMS_72
#undef LADDER_SUMS_64
#undef LADDER_SUMS_56
#undef LADDER_SUMS_48
#undef LADDER_SUMS_40
#undef LADDER_SUMS_32
#undef LADDER_SUMS_24
#undef LADDER_SUMS_16
#undef LADDER_SUMS_12
#undef LADDER_SUMS_8
#undef LADDER_SUMS_4
#undef LADDER_FOUR
#undef LADDER_TEXT_128
#undef LADDER_TEXT_120
#undef LADDER_TEXT_112
#undef LADDER_TEXT_104
#undef LADDER_TEXT_96
#undef LADDER_TEXT_88
#undef LADDER_TEXT_80
#undef LADDER_TEXT_72
#undef LADDER_TEXT_64
#undef LADDER_TEXT_56
#undef LADDER_TEXT_48
#undef LADDER_TEXT_40
#undef LADDER_TEXT_32
#undef LADDER_TEXT_24
#undef LADDER_TEXT_16
#undef LADDER_TEXT_12
#undef LADDER_TEXT_8
#undef LADDER_TEXT_4

}  // namespace ladder::ptx

#endif
