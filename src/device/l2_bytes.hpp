// How large the L2 cache is.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)
inline std::int64_t l2_bytes() { return 50 << 20; }  // an H100's
#else
inline std::int64_t l2_bytes() {
  static const int bytes = [] {
    int device = 0, attribute = 0;
    cudaGetDevice(&device);
    expect_success(cudaDeviceGetAttribute(&attribute, cudaDevAttrL2CacheSize, device));
    return attribute;
  }();
  return bytes;
}
#endif

}  // namespace ladder
