// The host's memory of the transfers, allocated at a version's first launch, which is the check and
// not timed, and kept for the next; and what brings samples of it back. GPU builds alone.
#pragma once

#include "roofs.hpp"

#include "harness/cuda/error.hpp"
#include "support/out_of_memory.hpp"

#include <cstdlib>

namespace roofs {

enum class HostMemory { pageable, pinned, managed };

/// An array of the host's. Its memory stays until the program ends, when the driver takes it back:
/// a destructor would run after CUDA has shut down.
template <HostMemory kKind>
class HostArray {
 public:
  /// n floats that hold on_host(i), or nothing in particular. Throws when there is not that much.
  float* get(std::int64_t n, bool filled) {
    if (n > n_) {
      release();
      data_ = allocate(static_cast<std::size_t>(n) * sizeof(float));
      n_ = n;
      for (std::int64_t i = 0; i < n; ++i) data_[i] = filled ? Transfer::on_host(i) : 0;
    }
    return data_;
  }

 private:
  static float* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if constexpr (kKind == HostMemory::pageable) {
      memory = std::malloc(bytes);
      if (!memory) throw_no_memory(bytes);
    } else if constexpr (kKind == HostMemory::pinned) {
      const cudaError_t error = cudaMallocHost(&memory, bytes);
      if (error == cudaErrorMemoryAllocation) throw_no_memory(bytes);
      LADDER_CUDA(error);
    } else {
      int device = 0;
      LADDER_CUDA(cudaGetDevice(&device));
      LADDER_CUDA(cudaMallocManaged(&memory, bytes));
      advise(memory, bytes, cudaMemAdviseSetPreferredLocation, -1);
      advise(memory, bytes, cudaMemAdviseSetAccessedBy, device);
    }
    return static_cast<float*>(memory);
  }
  [[noreturn]] static void throw_no_memory(std::size_t bytes) {
    cudaGetLastError();
    throw ladder::OutOfMemory(static_cast<double>(bytes),
                              static_cast<double>(ladder::free_host_memory()),
                              "an array of the host's");
  }
  void release() {
    float* const old = std::exchange(data_, nullptr);
    n_ = 0;
    if (!old) return;
    if constexpr (kKind == HostMemory::pageable) {
      std::free(old);
    } else if constexpr (kKind == HostMemory::pinned) {
      LADDER_CUDA(cudaFreeHost(old));
    } else {
      LADDER_CUDA(cudaFree(old));
    }
  }
  /// device -1 is the host.
  static void advise(void* memory, std::size_t bytes, cudaMemoryAdvise advice, int device) {
#if CUDART_VERSION >= 13000
    const cudaMemLocation place{device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                                max(device, 0)};
    LADDER_CUDA(cudaMemAdvise(memory, bytes, advice, place));
#else
    LADDER_CUDA(cudaMemAdvise(memory, bytes, advice, device < 0 ? cudaCpuDeviceId : device));
#endif
  }

  float* data_ = nullptr;
  std::int64_t n_ = 0;
};

inline void copy(void* to, const void* from, std::int64_t floats, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  LADDER_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

/// Every n / kSamples-th of n floats of the host's.
inline void bring_samples(float* samples, const float* host, std::int64_t n, cudaStream_t stream) {
  const std::size_t pitch = static_cast<std::size_t>(n / Transfer::kSamples) * sizeof(float);
  LADDER_CUDA(cudaMemcpy2DAsync(samples, sizeof(float), host, pitch, sizeof(float),
                                Transfer::kSamples, cudaMemcpyDefault, stream));
}

}  // namespace roofs
