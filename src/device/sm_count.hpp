// How many multiprocessors there are for a launch to fill, and how many blocks fill them.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

#if defined(LADDER_HOST_EXECUTOR)
inline int sm_count() { return host::sm_count(); }

/// Of an SM's 228 KiB of shared memory each block takes 1 KiB more than it has. Where it has no
/// dynamic one, registers decide, which nobody knows here: one block.
template <class Kernel>
int blocks_at_once(Kernel*, int cluster, int, std::size_t shared) {
  const int of_an_sm = shared == 0 ? 1 : max(1, static_cast<int>(228 * 1024 / (shared + 1024)));
  const auto blocks =
      static_cast<int>(min(std::int64_t{sm_count()} * of_an_sm, std::int64_t{1} << 30));
  return max(1, blocks / cluster) * cluster;
}
#else
inline int sm_count() {
  static const int count = [] {
    int device = 0, attribute = 0;
    cudaGetDevice(&device);
    expect_success(cudaDeviceGetAttribute(&attribute, cudaDevAttrMultiProcessorCount, device));
    return attribute;
  }();
  return count;
}

/// How many blocks of a kernel run at the same time, in clusters. A cluster is in one GPC, whose
/// multiprocessors it need not divide evenly. `shared` is the dynamic shared memory of a block.
template <class Kernel>
int blocks_at_once(Kernel* kernel, int cluster, int threads, std::size_t shared) {
  expect_success(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)));
  if (cluster == 1) {
    int of_an_sm = 0;
    expect_success(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_an_sm, kernel, threads, shared));
    return of_an_sm * sm_count();
  }
  cudaLaunchConfig_t config{};
  config.gridDim = cluster;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  cudaLaunchAttribute attribute = cluster_attribute(cluster);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  expect_success(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  return clusters * cluster;
}
#endif

}  // namespace ladder
