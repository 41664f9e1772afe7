// Compiled into the programs and into the host executor's shared library: each image has lists of
// its own.
#include "harness/registry.hpp"

#include <cstdarg>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>

namespace ladder {

std::vector<Kernel>& registered_kernels() {
  static std::vector<Kernel> kernels;
  return kernels;
}

std::vector<Launch>& recorded_launches() {
  static std::vector<Launch> launches;
  return launches;
}

void register_kernel(const Kernel& kernel) { registered_kernels().push_back(kernel); }

void record_launch(const Launch& launch) { recorded_launches().push_back(launch); }

Support unsupported(const char* format, ...) {
  static std::set<std::string> reasons;
  char text[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return {false, reasons.emplace(text).first->c_str()};
}

#if defined(LADDER_CUDA_BACKEND) && !defined(LADDER_HOST_EXECUTOR)
void throw_cuda_error(cudaError_t error) { throw std::runtime_error(cudaGetErrorString(error)); }
#endif

}  // namespace ladder
