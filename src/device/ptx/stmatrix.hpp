// stmatrix: 8 x 8 matrices of 16-bit elements from registers to shared memory, ldmatrix the other
// way round (ldmatrix.hpp has the picture).
//
// Register i of every lane is of matrix i; lane l with group g = l / 4 and t = l % 4 has elements
// 2 t and 2 t + 1 of row g, the first in the low half. Lane 8i + r brings the address of row r of
// matrix i: 16 bytes, at a multiple of 16. The transposed form stores matrices turned over: then it
// is the address of what is column r in registers.
//
// All 32 lanes take part, at the same place in the program. It is no barrier. Compute capability
// 9.0. PTX ISA, "Warp Level Matrix Instructions: stmatrix".
#pragma once

#include "device/ptx/mbarrier.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

namespace ladder::ptx {

__device__ __forceinline__ void stmatrix(void* row, const std::uint32_t (&fragment)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
      : "memory");
}
__device__ __forceinline__ void stmatrix_transposed(void* row, const std::uint32_t (&fragment)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(row)),
               "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
               : "memory");
}

}  // namespace ladder::ptx

#endif
