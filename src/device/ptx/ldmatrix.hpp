// ldmatrix: 8 x 8 matrices of 16-bit elements from shared memory to registers, spread over a warp's
// lanes as mma's operands are.
//
// An instruction loads 1, 2 or 4 matrices (x1, x2, x4): register i of every lane is of matrix i.
// Lane 8i + r brings the address of row r of matrix i: 8 elements, side by side, at a multiple of
// 16 bytes. The rows can lie anywhere else. Which lane gets which two elements:
//
//           ldmatrix                               ldmatrix_trans
//
//   column   0   1   2   3   4   5   6   7          0   1   2   3   4   5   6   7
//   row 0    0   0   1   1   2   2   3   3          0   4   8  12  16  20  24  28
//       1    4   4   5   5   6   6   7   7          0   4   8  12  16  20  24  28
//       2    8   8   9   9  10  10  11  11          1   5   9  13  17  21  25  29
//       3   12  12  13  13  14  14  15  15          1   5   9  13  17  21  25  29
//       4   16  16  17  17  18  18  19  19          2   6  10  14  18  22  26  30
//       5   20  20  21  21  22  22  23  23          2   6  10  14  18  22  26  30
//       6   24  24  25  25  26  26  27  27          3   7  11  15  19  23  27  31
//       7   28  28  29  29  30  30  31  31          3   7  11  15  19  23  27  31
//
// Of the two elements the upper or left one is in the low half of the register. The operands of
// mma_m16n8k16, from tiles in shared memory (mma.hpp):
//
//   A, 16 x 16, rows along k       ldmatrix(a, &tile[lane % 16][lane / 16 * 8])
//   B, 16 x 8, rows along n        ldmatrix_trans(b, &tile[lane % 16][0])
//   B, 16 x 8, columns along k     ldmatrix(b, &tile[lane % 8][lane / 8 % 2 * 8])
//
// The 8 rows of a matrix are read together, in one pass through the banks if no two of them lie in
// the same 16 bytes of 128: the reason to pad or swizzle a tile.
//
// All 32 lanes take part, at the same place in the program. It is no barrier: what other lanes wrote
// is there after __syncwarp() or __syncthreads(). Compute capability 7.5; there even the lanes whose
// addresses are not used must bring valid ones.
#pragma once

#include "device/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx.hpp"
#else

namespace ladder::ptx {

__device__ __forceinline__ void ldmatrix(std::uint32_t (&fragment)[1], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(fragment[0])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void ldmatrix(std::uint32_t (&fragment)[2], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragment[0]), "=r"(fragment[1])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void ldmatrix(std::uint32_t (&fragment)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_trans(std::uint32_t (&fragment)[1], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(fragment[0])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(std::uint32_t (&fragment)[2], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragment[0]), "=r"(fragment[1])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(std::uint32_t (&fragment)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(from)
               : "memory");
}

}  // namespace ladder::ptx

#endif
