// What versions need of a GPU, and say so in `supports`. The host executor has it all.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)

inline Support needs_compute_capability(int) { return supported(); }
inline Support needs_shared_memory(std::size_t) { return supported(); }
template <class Kernel>
bool is_compiled_for(Kernel*, int) {
  return true;
}

#else

int compute_capability();                    // of the current device, 90 for 9.0; facts.cpp
std::size_t shared_bytes_of_block();         // the most a block can have there; facts.cpp
int capability_of_code(const void* kernel);  // that of a kernel's code which runs there; facts.cpp

/// A compute capability, 80 for 8.0, or a newer one.
inline Support needs_compute_capability(int needed) {
  if (compute_capability() >= needed) return supported();
  return unsupported("needs compute capability %d.%d", needed / 10, needed % 10);
}

/// Bytes of shared memory for a block: 7.5 has 64 KiB, 8.6, 8.9 and 12.0 have 99 KiB.
inline Support needs_shared_memory(std::size_t needed) {
  if (shared_bytes_of_block() >= needed) return supported();
  return unsupported("needs %zu KiB of shared memory", ceil_div(needed, std::size_t{1024}));
}

/// Whether the code of a kernel that this GPU runs is of a compute capability, 90 for 9.0, or a newer
/// one. It is not on an older GPU, nor where a build has older code only, which the driver translates.
template <class Kernel>
bool is_compiled_for(Kernel* kernel, int capability) {
  return capability_of_code(reinterpret_cast<const void*>(kernel)) >= capability;
}

#endif

}  // namespace ladder
