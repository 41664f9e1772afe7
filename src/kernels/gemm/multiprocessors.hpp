// How many multiprocessors there are for a launch to fill.
#pragma once

#include "harness/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
inline int gemm_multiprocessors() { return 2; }
#else
inline int gemm_multiprocessors() {
  static const int count = [] {
    int device = 0, attribute = 0;
    cudaGetDevice(&device);
    const cudaError_t error =
        cudaDeviceGetAttribute(&attribute, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
    return attribute;
  }();
  return count;
}
#endif
