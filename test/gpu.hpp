// What tests of instructions share that run on a GPU, and on the host executor too: the fixture,
// which skips where they can't run, and memory.
#pragma once

#include <gtest/gtest.h>

#if defined(LADDER_HOST_EXECUTOR)

#include <cstring>

#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"

/// Under several orders of the threads, in which asynchronous work is late and early.
#define LADDER_ORDERS testing::Values(0u, 20240607u)
template <int, int>
class GpuTest : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override { ladder::host::set_lane_order(GetParam()); }
  void TearDown() override { ladder::host::set_lane_order(0); }
};

using ladder::host::allocate;
using ladder::host::release;
inline void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#else

#include <cstdlib>
#include <string>

#include "harness/cuda/error.hpp"

#define LADDER_ORDERS testing::Values(0u)

/// 90 for 9.0.
inline int compute_capability() {
  int major = 0, minor = 0;
  LADDER_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  LADDER_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return 10 * major + minor;
}

/// Tests for compute capabilities from kLeast to kMost. Without a GPU they are skipped, or fail
/// where LADDER_REQUIRE_GPU is set.
template <int kLeast, int kMost>
class GpuTest : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
      if (std::getenv("LADDER_REQUIRE_GPU")) {
        FAIL() << "LADDER_REQUIRE_GPU is set, but: " << cudaGetErrorString(error);
      }
      GTEST_SKIP() << "nothing ran on a GPU: " << cudaGetErrorString(error);
    }
    if (const int present = compute_capability(); present < kLeast || present > kMost) {
      GTEST_SKIP() << "nothing ran on a GPU: it needs compute capability " << kLeast / 10 << "."
                   << kLeast % 10 << ", this one has " << present / 10 << "." << present % 10;
    }
  }
};

inline void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  LADDER_CUDA(cudaMalloc(&pointer, bytes));
  return pointer;
}
inline void release(void* pointer) { cudaFree(pointer); }
inline void copy(void* to, const void* from, std::size_t bytes) {
  LADDER_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

#endif
