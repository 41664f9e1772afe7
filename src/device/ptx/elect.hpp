// elect.sync: one lane of a warp, whichever, as an instruction of one thread wants it.
//
//   if (elect_one()) bulk_load(…);
//
// All 32 lanes take part, at the same place in the program. Where the compiler sees that one lane
// alone goes on, it needs no loop over those that might. Compute capability 9.0. PTX ISA, "Parallel
// Synchronization and Communication Instructions: elect.sync".
#pragma once

#include "device/kernel.hpp"

namespace ladder::ptx {

__device__ __forceinline__ bool elect_one() {
#if defined(LADDER_HOST_EXECUTOR)
  __syncwarp();
  return host::lane_id() == 0;
#else
  unsigned elected;
  asm volatile(
      "{\n.reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n}"
      : "=r"(elected)::"memory");
  return elected;
#endif
}

}  // namespace ladder::ptx
