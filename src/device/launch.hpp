// How a version launches its kernels, and dynamic shared memory.
#pragma once

#include "device/types.hpp"

#include <cstddef>
#include <cstring>
#include <utility>

namespace ladder {

/// One kernel launch.
struct Launch {
  const void* function;
  dim3 grid, block;
  std::size_t dynamic_shared;  ///< bytes
};
void record_launch(const Launch& launch);

/// How a kernel is launched, from compute capability 9.0 on.
struct LaunchOptions {
  int cluster = 0;  ///< blocks along x; 0: as the kernel says
  /// It may begin before the kernel that was launched last has ended, and waits for it where it has to
  /// (device/ptx/griddepcontrol.hpp).
  bool overlapping = false;
};

#if !defined(LADDER_HOST_EXECUTOR)
[[noreturn]] void throw_cuda_error(cudaError_t error);

/// Throws std::runtime_error with CUDA's description of the error, unless there is none.
inline void expect_success(cudaError_t error) {
  if (error != cudaSuccess) throw_cuda_error(error);
}

/// Of a launch in clusters of so many blocks along x.
inline cudaLaunchAttribute cluster_attribute(int blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  return attribute;
}
#endif

#if defined(__CUDACC__)

/// Dynamic shared memory of the running block, aligned to 128 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char ladder_dynamic_shared[];
  return reinterpret_cast<T*>(ladder_dynamic_shared);
}

/// Sets `bytes` bytes of device memory, in order with the stream's launches. Throws
/// std::runtime_error when CUDA refuses.
inline void fill_async(void* to, unsigned char byte, std::size_t bytes, cudaStream_t stream) {
  expect_success(cudaMemsetAsync(to, byte, bytes, stream));
}

template <class... P, class... A>
void launch_with(LaunchOptions options, void (*kernel)(P...), dim3 grid, dim3 block,
                 std::size_t shared_bytes, cudaStream_t stream, A&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const auto* function = reinterpret_cast<const void*>(kernel);
  record_launch({function, grid, block, shared_bytes});
  if (shared_bytes > 48 * 1024) {  // more than every GPU grants unasked
    expect_success(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared_bytes)));
  }
  cudaLaunchAttribute attributes[2]{};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (options.cluster > 1) {  // every block is a cluster of one
    attributes[config.numAttrs++] = cluster_attribute(options.cluster);
  }
  if (options.overlapping) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  expect_success(cudaLaunchKernelEx(&config, kernel, static_cast<P>(std::forward<A>(args))...));
}

#elif defined(LADDER_HOST_EXECUTOR)

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(host::dynamic_shared());
}

inline void fill_async(void* to, unsigned char byte, std::size_t bytes, cudaStream_t stream) {
  host::expect_stream(stream);
  if (bytes > 0) std::memset(to, byte, bytes);
}

template <class... P, class... A>
void launch_with(LaunchOptions options, void (*kernel)(P...), dim3 grid, dim3 block,
                 std::size_t shared_bytes, cudaStream_t stream, A&&... args) {
  host::expect_stream(stream);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const auto* function = reinterpret_cast<const void*>(kernel);
  record_launch({function, grid, block, shared_bytes});
  host::expect_launch_bounds(function, block);
  host::run(
      grid, block, shared_bytes,
      options.cluster > 0 ? static_cast<unsigned>(options.cluster) : host::cluster_size(function),
      [&] { kernel(static_cast<P>(args)...); });
}

#endif

#if defined(__CUDACC__) || defined(LADDER_HOST_EXECUTOR)

/// Launches kernel<<<grid, block, shared_bytes, stream>>>(args...); a grid with no blocks is
/// nothing to do. Throws std::runtime_error when CUDA refuses the launch.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, A&&... args) {
  launch_with({}, kernel, grid, block, shared_bytes, stream, std::forward<A>(args)...);
}

/// As launch does, in clusters of so many blocks along x, from compute capability 9.0 on; 1: as the
/// kernel says.
template <class... P, class... A>
void launch_in_clusters(void (*kernel)(P...), int cluster, dim3 grid, dim3 block,
                        std::size_t shared_bytes, cudaStream_t stream, A&&... args) {
  launch_with({.cluster = cluster > 1 ? cluster : 0}, kernel, grid, block, shared_bytes, stream,
              std::forward<A>(args)...);
}

#endif

}  // namespace ladder
