// cuDNN for baselines: a handle for each device, errors as exceptions.
#pragma once

#include "device/current_device.hpp"
#include "harness/cuda/error.hpp"

#include <cudnn.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace ladder {

inline void cudnn_check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}

/// The current device's handle, which is one thread's at a time, as long as this lives. It is made on
/// first use and never destroyed: CUDA goes before. Throws std::runtime_error.
class CudnnHandle {
 public:
  CudnnHandle() : CudnnHandle(of_device()) {}
  operator cudnnHandle_t() const { return own_.handle; }

 private:
  struct Own {
    std::mutex in_use;
    cudnnHandle_t handle = nullptr;
  };
  explicit CudnnHandle(Own& own) : own_(own), lock_(own.in_use) {
    if (!own.handle) cudnn_check(cudnnCreate(&own.handle), "cudnnCreate");
  }
  static Own& of_device() {
    static std::mutex mutex;
    static auto& all = *new std::map<int, Own>;
    const std::lock_guard lock(mutex);
    return all[current_device()];
  }

  Own& own_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace ladder
