// What versions need, and say so in `supports`.
#pragma once

#include "gemm_tensor.hpp"

#if defined(LADDER_HOST_EXECUTOR)

inline ladder::Support needs_compute_capability(int) { return ladder::supported(); }
inline ladder::Support needs_shared_memory(std::size_t) { return ladder::supported(); }

#else

inline int attribute_of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  ladder::expect_success(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

/// A compute capability, 80 for 8.0, or a newer one.
inline ladder::Support needs_compute_capability(int needed) {
  static const int present = 10 * attribute_of_device(cudaDevAttrComputeCapabilityMajor) +
                             attribute_of_device(cudaDevAttrComputeCapabilityMinor);
  if (present >= needed) return ladder::supported();
  return ladder::unsupported("needs compute capability %d.%d", needed / 10, needed % 10);
}

/// Bytes of shared memory for a block.
inline ladder::Support needs_shared_memory(std::size_t needed) {
  static const int present = attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (static_cast<std::size_t>(present) >= needed) return ladder::supported();
  return ladder::unsupported("needs %zu KiB of shared memory", needed / 1024);
}

#endif

/// Rows of A and B that start at multiples of 16 bytes.
template <class Op, class T>
ladder::Support needs_aligned_rows(const gemm_tensor::Problem& p) {
  constexpr int kVector = 16 / sizeof(T);
  const int row_a = Op::kTransposedA ? p.m : p.k, row_b = Op::kTransposedB ? p.k : p.n;
  if (row_a % kVector == 0 && row_b % kVector == 0) return ladder::supported();
  return ladder::unsupported("rows of A or B do not start at multiples of 16 bytes");
}
