// griddepcontrol: a kernel that is launched to overlap with the one before it (programmatic dependent
// launch) waits for that one's memory, and lets the one behind it begin.
//
//   …                                      what needs nothing of the kernel before
//   griddepcontrol_wait();                 that one has ended, and what it wrote is seen
//   …
//   griddepcontrol_launch_dependents();    the next may begin when all blocks have said so, or ended
//
// Launched without the attribute, both do nothing; so they do on the host executor, where launches
// follow each other, and before compute capability 9.0, where no launch has it. PTX ISA, "Parallel
// Synchronization and Communication Instructions: griddepcontrol".
#pragma once

#include "device/kernel.hpp"

namespace ladder::ptx {

__device__ __forceinline__ void griddepcontrol_wait() {
#if !defined(LADDER_HOST_EXECUTOR) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if !defined(LADDER_HOST_EXECUTOR) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ladder::ptx
