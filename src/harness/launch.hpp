// The host code of a version, which may be a user's.
#pragma once

#include "device/kernel.hpp"

#include <exception>
#include <stdexcept>

namespace ladder {

/// Calls a version's launch. Whatever that throws is a std::exception.
inline void launch_version(const Kernel& kernel, const Call& call, cudaStream_t stream) {
  try {
    kernel.launch(call, stream);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw std::runtime_error("the launch threw something that is no std::exception");
  }
}

}  // namespace ladder
