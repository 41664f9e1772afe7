// setmaxnreg: a warpgroup gives registers back to the multiprocessor, or takes more of them.
//
// A kernel's registers are given to all its threads alike when a block starts. Where warpgroups
// have different jobs, those that need few give some back and the others take them:
//
//   if (warpgroup == 0) {
//     setmaxnreg_dec<40>();     keeps 40 per thread
//   } else {
//     setmaxnreg_inc<232>();         waits until they are there
//   }
//
// All threads of a warpgroup execute it, at the same place in the program. Numbers are multiples of
// 8, from 24 to 256. All warpgroups together must not have more than the block started with: take
// one that starts with 168 in three warpgroups, 40 + 2 * 232 = 3 * 168.
//
// The compiler takes the number for the limit of what follows in that branch. It needs to know with
// how many the kernel starts (__launch_bounds__ with one block per multiprocessor); where it does
// not, it says so and ignores the instruction (warning C7508).
//
// Compute capability 9.0a. PTX ISA, "Miscellaneous Instructions: setmaxnreg".
#pragma once

#include "device/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
#include "host_executor/ptx_hopper.hpp"
#else

namespace ladder::ptx {

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace ladder::ptx

#endif
