#include "harness/cuda/cublas.hpp"

#include "device/current_device.hpp"
#include "harness/cuda/error.hpp"

#include <dlfcn.h>

#include <map>

namespace ladder {
namespace {

class Blas {
 public:
  Blas() {
    LADDER_CUBLAS(cublasCreate(&handle_));
    LADDER_CUBLAS(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH));
  }
  ~Blas() { cublasDestroy(handle_); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  cublasHandle_t on(cudaStream_t stream, void* workspace) {
    if (stream == stream_ && workspace == workspace_) return handle_;
    LADDER_CUBLAS(cublasSetStream(handle_, stream));
    stream_ = stream;
    workspace_ = nullptr;  // the stream took it away
    if (workspace) LADDER_CUBLAS(cublasSetWorkspace(handle_, workspace, kCublasWorkspace));
    workspace_ = workspace;
    return handle_;
  }

 private:
  cublasHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* workspace_ = nullptr;
};

class BlasLt {
 public:
  BlasLt() { LADDER_CUBLAS(cublasLtCreate(&handle_)); }
  ~BlasLt() { cublasLtDestroy(handle_); }
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;
  cublasLtHandle_t handle() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

/// The thread's of the current device.
template <class Handle>
Handle& handle_here() {
  thread_local std::map<int, Handle> by_device;
  return by_device[current_device()];
}

}  // namespace

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

cublasHandle_t cublas(cudaStream_t stream, void* workspace) {
  return handle_here<Blas>().on(stream, workspace);
}

cublasLtHandle_t cublas_lt() { return handle_here<BlasLt>().handle(); }

}  // namespace ladder
