// The GPU that CUDA's calls of this thread mean.
#pragma once

#include "device/launch.hpp"

namespace ladder {

/// Another one, as long as this lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : device_(device) {
    expect_success(cudaGetDevice(&before_));
    if (device_ != before_) expect_success(cudaSetDevice(device_));
  }
  ~CurrentDevice() {
    if (device_ != before_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int device_, before_ = 0;
};

}  // namespace ladder
