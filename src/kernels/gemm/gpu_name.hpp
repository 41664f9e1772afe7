// What the GPU of a launch is called.
#pragma once

#include "harness/kernel.hpp"

#if defined(LADDER_HOST_EXECUTOR)
inline std::string gemm_gpu_name() { return ""; }
#else
inline const std::string& gemm_gpu_name() {
  static const std::string name = [] {
    int device = 0;
    cudaDeviceProp properties{};
    cudaGetDevice(&device);
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
    return std::string(properties.name);
  }();
  return name;
}
#endif
