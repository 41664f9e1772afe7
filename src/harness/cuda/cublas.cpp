#include "harness/cuda/cublas.hpp"

#include "harness/cuda/error.hpp"
#include "harness/cuda/memory.hpp"

#include <dlfcn.h>

namespace ladder {

void* cublas_function(const char* name) {
  const auto found = [](void* loaded) {
    if (!loaded) throw std::runtime_error(dlerror());
    return loaded;
  };
  static void* const library = found(dlopen(LADDER_CUBLAS_LIBRARY, RTLD_NOW));  // and cuBLASLt
  return found(dlsym(library, name));
}

void cublas_check(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(cublasGetStatusString(status)) + " (" + expression + " at " +
                           file + ":" + std::to_string(line) + ")");
}

cublasHandle_t cublas(cudaStream_t stream) {
  static const cublasHandle_t handle = [] {
    cublasHandle_t made = nullptr;
    LADDER_CUBLAS(cublasCreate(&made));
    LADDER_CUBLAS(cublasSetMathMode(made, CUBLAS_DEFAULT_MATH));
    return made;
  }();
  constexpr std::size_t kWorkspaceBytes = 32 << 20;  // what NVIDIA recommends for Hopper
  static void* const workspace = allocate_on_gpu(kWorkspaceBytes, "cuBLAS's workspace");
  static cudaStream_t current = cudaStreamPerThread;  // none of ours
  if (current != stream) {
    LADDER_CUBLAS(cublasSetStream(handle, stream));
    LADDER_CUBLAS(
        cublasSetWorkspace(handle, workspace, kWorkspaceBytes));  // the stream took it away
    current = stream;
  }
  return handle;
}

cublasLtHandle_t cublas_lt() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    LADDER_CUBLAS(cublasLtCreate(&made));
    return made;
  }();
  return handle;
}

}  // namespace ladder
