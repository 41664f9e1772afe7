// Turns CUDA's error codes into exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace ladder {

inline void cuda_check(cudaError_t error, const char* expression, const char* file, int line) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // or the next launch would be blamed for it
  throw std::runtime_error(std::string(cudaGetErrorString(error)) + " (" + expression + " at " +
                           file + ":" + std::to_string(line) + ")");
}

}  // namespace ladder

/// Evaluates a CUDA runtime call; throws std::runtime_error with the reason, the call and the
/// place.
#define LADDER_CUDA(expression) ::ladder::cuda_check((expression), #expression, __FILE__, __LINE__)
