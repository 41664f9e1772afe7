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

inline int attribute_of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  expect_success(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

/// A compute capability, 80 for 8.0, or a newer one.
inline Support needs_compute_capability(int needed) {
  static const int present = 10 * attribute_of_device(cudaDevAttrComputeCapabilityMajor) +
                             attribute_of_device(cudaDevAttrComputeCapabilityMinor);
  if (present >= needed) return supported();
  return unsupported("needs compute capability %d.%d", needed / 10, needed % 10);
}

/// Bytes of shared memory for a block: 7.5 has 64 KiB, 8.6, 8.9 and 12.0 have 99 KiB.
inline Support needs_shared_memory(std::size_t needed) {
  static const int present = attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (static_cast<std::size_t>(present) >= needed) return supported();
  return unsupported("needs %zu KiB of shared memory", ceil_div(needed, std::size_t{1024}));
}

/// Whether the code of a kernel that this GPU runs is of a compute capability, 90 for 9.0, or a newer
/// one. It is not on an older GPU, nor where a build has older code only, which the driver translates.
template <class Kernel>
bool is_compiled_for(Kernel* kernel, int capability) {
  cudaFuncAttributes attributes{};
  expect_success(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.ptxVersion >= capability;
}

#endif

}  // namespace ladder
