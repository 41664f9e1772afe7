// What versions need, and say so in `supports`.
#pragma once

#include "device/needs.hpp"
#include "gemm_tensor.hpp"

using ladder::needs_compute_capability;
using ladder::needs_shared_memory;

/// Whether rows `pitch` elements apart all start at multiples of 16 bytes.
template <class T>
__host__ __device__ inline bool has_aligned_rows(const T* matrix, int pitch) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && pitch % (16 / sizeof(T)) == 0;
}

/// Rows of A and B that start at multiples of 16 bytes.
template <class Op, class T>
ladder::Support needs_aligned_rows(const gemm_tensor::Problem& p) {
  constexpr int kVector = 16 / sizeof(T);
  const int row_a = Op::kTransposedA ? p.m : p.k, row_b = Op::kTransposedB ? p.k : p.n;
  if (row_a % kVector == 0 && row_b % kVector == 0) return ladder::supported();
  return ladder::unsupported("rows of A or B do not start at multiples of 16 bytes");
}
