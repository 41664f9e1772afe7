// The tests of harness/ptx/ on a GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/cuda/error.hpp"

namespace {

class Ptx : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    int major = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (error != cudaSuccess) {
      if (std::getenv("LADDER_REQUIRE_GPU")) {
        FAIL() << "LADDER_REQUIRE_GPU is set, but: " << cudaGetErrorString(error);
      }
      GTEST_SKIP() << "nothing ran on a GPU: " << cudaGetErrorString(error);
    }
    if (major < 8) GTEST_SKIP() << "nothing ran on a GPU: it needs compute capability 8.0";
  }
};
INSTANTIATE_TEST_SUITE_P(Gpu, Ptx, testing::Values(0u));

void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  LADDER_CUDA(cudaMalloc(&pointer, bytes));
  return pointer;
}
void release(void* pointer) { cudaFree(pointer); }
void copy(void* to, const void* from, std::size_t bytes) {
  LADDER_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

}  // namespace

#include "ptx_tests.hpp"
