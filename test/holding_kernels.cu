#include "holding_kernels.hpp"

#include "harness/cuda/error.hpp"

namespace ladder {
namespace {

constexpr double kNsOfUs = 1e3, kMostNs = 10e9;

__device__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void ladder_hold_for(double ns) {
  const unsigned long long begin = now_ns();
  while (static_cast<double>(now_ns() - begin) < ns) __nanosleep(100);
}

__global__ void ladder_hold_until(const volatile int* released, double most_ns) {
  const unsigned long long begin = now_ns();
  while (*released == 0 && static_cast<double>(now_ns() - begin) < most_ns) __nanosleep(1000);
}

}  // namespace

void hold_stream(double us, cudaStream_t stream) {
  ladder_hold_for<<<1, 1, 0, stream>>>(us * kNsOfUs);
  LADDER_CUDA(cudaGetLastError());
}

void hold_sms(int blocks, const volatile int* released, cudaStream_t stream) {
  int device = 0, shared = 0;
  LADDER_CUDA(cudaGetDevice(&device));
  LADDER_CUDA(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  LADDER_CUDA(
      cudaFuncSetAttribute(ladder_hold_until, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  ladder_hold_until<<<static_cast<unsigned>(blocks), 1024, static_cast<std::size_t>(shared),
                      stream>>>(released, kMostNs);
  LADDER_CUDA(cudaGetLastError());
}

}  // namespace ladder
