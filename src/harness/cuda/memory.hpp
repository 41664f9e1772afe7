// The memory of the GPU.
#pragma once

#include "harness/cuda/error.hpp"
#include "support/out_of_memory.hpp"

#include <cstddef>

namespace ladder {

/// cudaMalloc. Throws OutOfMemory, which says what it was for.
inline void* allocate_on_gpu(std::size_t bytes, const char* what) {
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    LADDER_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfMemory(static_cast<double>(bytes), static_cast<double>(free), what);
  }
  LADDER_CUDA(error);
  return pointer;
}

}  // namespace ladder
