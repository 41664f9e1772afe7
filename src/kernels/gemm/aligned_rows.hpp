// The vectors that a matrix is read and written in, and whether its rows allow it.
#pragma once

#include "device/vector.hpp"

namespace {

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

/// Whether rows `pitch` floats apart all start at multiples of 16 bytes.
__host__ __device__ inline bool rows_aligned(const void* matrix, int pitch) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vec) == 0 && pitch % V == 0;
}

}  // namespace
