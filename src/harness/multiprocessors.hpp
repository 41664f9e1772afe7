// How many multiprocessors there are for a launch to fill.
#pragma once

#include "harness/kernel.hpp"

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)
inline int multiprocessors() { return 2; }
#else
inline int multiprocessors() {
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

}  // namespace ladder
