// The GPU that CUDA's calls of this thread mean.
#pragma once

#include "device/launch.hpp"

namespace ladder {

/// Its number.
inline int current_device() {
  int device = 0;
  expect_success(cudaGetDevice(&device));
  return device;
}

/// Another one, as long as this lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : device_(device), before_(current_device()) {
    if (device_ != before_) expect_success(cudaSetDevice(device_));
  }
  ~CurrentDevice() {
    if (device_ != before_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int device_, before_;
};

}  // namespace ladder
