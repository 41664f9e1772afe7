// Stands in for src/harness/cuda/ in a build without the CUDA compiler.
#include "harness/device.hpp"

#include <stdexcept>

namespace ladder {

std::unique_ptr<Device> open_cuda_device(int, Placement) {
  throw std::runtime_error("this build has no CUDA backend (cmake --preset release has one)");
}

}  // namespace ladder
