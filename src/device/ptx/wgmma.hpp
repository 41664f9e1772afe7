// wgmma: D = A * B + D on the tensor cores of Hopper, one product of matrices for a warpgroup: four
// neighbouring warps, the first of which has a number divisible by four. A and B are read from
// shared memory, D is in the registers of the 128 threads, and all of it happens on its own while
// the warps go on.
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
// D is 64 x N in fp32. Warp w of the warpgroup has rows 16 w to 16 w + 15; in it lane l with group
// g = l / 4 and t = l % 4 has
//
//   d[4 j + i]   row 16 w + g + i / 2 * 8, column 8 j + 2 t + i % 2
//
//   column   0  1    2  3    4  5    6  7      8  9   …
//   row 0    0  0    1  1    2  2    3  3      0  0   …   d[0], d[1]; from column 8 on d[4], d[5]
//       :
//       7   28 28   29 29   30 30   31 31     28 28
//       8    0  0    1  1    2  2    3  3      0  0       d[2], d[3]; from column 8 on d[6], d[7]
//
// which are accumulators of mma_m16n8k16 (mma.hpp), side by side.
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
// elements of f16 and bf16, 8 of tf32, 32 of e4m3. Where K is the major one they are 32 bytes
// further into the rows, else 16 rows further down.
//
// Precision: as in mma.hpp, sums are in fp32, cut off where mma's are. Of e4m3 they keep no more
// than 13 bits behind the first bit of the largest number added. tf32 are floats whose 13 last bits
// are not looked at.
//
// Compute capability 9.0a. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "device/ptx/mbarrier.hpp"

#include <type_traits>

namespace ladder::ptx {

/// Along which index neighbours are neighbours in memory: K, or M (of A) and N (of B).
enum class Major { k, mn };

#if !defined(LADDER_HOST_EXECUTOR)
/// The bits of a descriptor that say where the matrix begins.
__device__ __forceinline__ std::uint64_t descriptor_start(const void* matrix) {
  return (shared_address(matrix) & 0x3ffff) / 16;
}
#endif

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

}  // namespace ladder::ptx

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

namespace ladder::ptx {

/// What threads have written to registers of D, and what they have read, is done before products
/// that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the last kPending groups of this warpgroup's products are done. Sums that
/// are read afterwards are given by name, or the compiler might read them before.
template <int kPending, int... kRegisters>
__device__ __forceinline__ void wgmma_wait_group(float (&... d)[kRegisters]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  auto touch = [](auto& sums) {
#pragma unroll
    for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
  };
  (touch(d), ...);
}

// The instruction takes each register of D as an operand of its own. In the text they are "%0" to
// "%127", written ten at a time, by their tens.
// clang-format off
#define LADDER_TEN(t) \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, " \
  "%" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define LADDER_THIRTY LADDER_TEN() LADDER_TEN(1) LADDER_TEN(2)
#define LADDER_SIXTY LADDER_THIRTY LADDER_TEN(3) LADDER_TEN(4) LADDER_TEN(5)
#define LADDER_NINETY LADDER_SIXTY LADDER_TEN(6) LADDER_TEN(7) LADDER_TEN(8)
#define LADDER_TEXT_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define LADDER_TEXT_32 LADDER_THIRTY "%30, %31"
#define LADDER_TEXT_64 LADDER_SIXTY "%60, %61, %62, %63"
#define LADDER_TEXT_96 LADDER_NINETY "%90, %91, %92, %93, %94, %95"
#define LADDER_TEXT_112 LADDER_NINETY LADDER_TEN(9) LADDER_TEN(10) "%110, %111"
#define LADDER_TEXT_128 \
  LADDER_NINETY LADDER_TEN(9) LADDER_TEN(10) LADDER_TEN(11) \
  "%120, %121, %122, %123, %124, %125, %126, %127"
// clang-format on

#define LADDER_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LADDER_D8(i) LADDER_D4(i), LADDER_D4(i + 4)
#define LADDER_D16(i) LADDER_D4(i), LADDER_D4(i + 4), LADDER_D4(i + 8), LADDER_D4(i + 12)
#define LADDER_D32(i) LADDER_D16(i), LADDER_D16(i + 16)
#define LADDER_D64(i) LADDER_D32(i), LADDER_D32(i + 32)
#define LADDER_D96(i) LADDER_D64(i), LADDER_D32(i + 64)
#define LADDER_D112(i) LADDER_D96(i), LADDER_D16(i + 96)
#define LADDER_D128(i) LADDER_D64(i), LADDER_D64(i + 64)

// r registers of D, then operands number r to r + 2: descriptors, and whether D is added. What
// follows says along which index 16-bit types lie: its text, and its operands.
#define LADDER_WGMMA(n, k, type, r, r1, r2, majors, ...)                            \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #r2                         \
               ", 0;\n"                                                             \
               "wgmma.mma_async.sync.aligned.m64n" #n "k" k ".f32." type "." type   \
               " {" LADDER_TEXT_##r "}, %" #r ", %" #r1 ", add, 1, 1" majors ";\n}" \
               : LADDER_D##r(0)                                                     \
               : "l"(a), "l"(b), "r"(unsigned{add})__VA_OPT__(, ) __VA_ARGS__)
#define LADDER_WGMMA_OF_T(n, r, r1, r2, r3, r4)                                              \
  if constexpr (std::is_same_v<T, half>) {                                                   \
    LADDER_WGMMA(n, "16", "f16", r, r1, r2, ", %" #r3 ", %" #r4, "n"(kMajorA == Major::mn),  \
                 "n"(kMajorB == Major::mn));                                                 \
  } else if constexpr (std::is_same_v<T, bfloat16>) {                                        \
    LADDER_WGMMA(n, "16", "bf16", r, r1, r2, ", %" #r3 ", %" #r4, "n"(kMajorA == Major::mn), \
                 "n"(kMajorB == Major::mn));                                                 \
  } else if constexpr (std::is_same_v<T, tfloat32>) {                                        \
    LADDER_WGMMA(n, "8", "tf32", r, r1, r2, "");                                             \
  } else {                                                                                   \
    LADDER_WGMMA(n, "32", "e4m3", r, r1, r2, "");                                            \
  }

/// D = A * B + D, or A * B if not `add`: 64 x N, with 32 bytes of K. a and b are descriptors; T, the
/// type of A and B, is half, bfloat16, tfloat32 or float8_e4m3.
template <int N, Major kMajorA, Major kMajorB, class T>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                      bool add) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bfloat16> ||
                (kMajorA == Major::k && kMajorB == Major::k &&
                 (std::is_same_v<T, tfloat32> || std::is_same_v<T, float8_e4m3>)));
  static_assert(N == 16 || N == 64 || N == 128 || N == 192 || N == 224 || N == 256);
  if constexpr (N == 16) {
    LADDER_WGMMA_OF_T(16, 8, 9, 10, 11, 12)
  } else if constexpr (N == 64) {
    LADDER_WGMMA_OF_T(64, 32, 33, 34, 35, 36)
  } else if constexpr (N == 128) {
    LADDER_WGMMA_OF_T(128, 64, 65, 66, 67, 68)
  } else if constexpr (N == 192) {
    LADDER_WGMMA_OF_T(192, 96, 97, 98, 99, 100)
  } else if constexpr (N == 224) {
    LADDER_WGMMA_OF_T(224, 112, 113, 114, 115, 116)
  } else {
    LADDER_WGMMA_OF_T(256, 128, 129, 130, 131, 132)
  }
}

#undef LADDER_WGMMA_OF_T
#undef LADDER_WGMMA
#undef LADDER_D128
#undef LADDER_D112
#undef LADDER_D96
#undef LADDER_D64
#undef LADDER_D32
#undef LADDER_D16
#undef LADDER_D8
#undef LADDER_D4
#undef LADDER_TEXT_128
#undef LADDER_TEXT_112
#undef LADDER_TEXT_96
#undef LADDER_TEXT_64
#undef LADDER_TEXT_32
#undef LADDER_TEXT_8
#undef LADDER_NINETY
#undef LADDER_SIXTY
#undef LADDER_THIRTY
#undef LADDER_TEN

}  // namespace ladder::ptx

#endif
