#include "harness/cuda/l2_flush.hpp"

#include "device/current_device.hpp"
#include "device/on_each.hpp"
#include "harness/cuda/error.hpp"
#include "harness/cuda/memory.hpp"

#include <algorithm>

namespace ladder {
namespace {

constexpr int kBlocks = 1024, kThreads = 256;

/// Reads a buffer of zeros, and writes nothing.
__global__ void read_kernel(const uint4* data, std::size_t n, unsigned* never) {
  unsigned any = 0;
  const std::size_t first = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
#pragma unroll 4
  for (std::size_t i = first; i < n; i += std::size_t{kBlocks} * kThreads) {
    const uint4 some = data[i];
    any |= some.x | some.y | some.z | some.w;
  }
  if (any != 0) *never = any;
}

/// Calls flush(device, stream) for the current GPU, and with it current for each of the others.
void on_all(cudaStream_t stream, Ranks ranks, auto flush) {
  flush(current_device(), stream);
  if (ranks.count <= 1) return;
  on_each(ranks, [&](const Rank& rank) {
    if (rank.index > 0) flush(rank.device, rank.stream);
  });
}

}  // namespace

L2Flush::L2Flush(std::size_t l2_bytes) : bytes_(2 * std::max<std::size_t>(l2_bytes, 1 << 20)) {
  buffer_of(current_device());
}

L2Flush::~L2Flush() {
  for (const auto& [device, buffer] : buffers_) cudaFree(buffer);
}

/// Of the device that is current.
void* L2Flush::buffer_of(int device) {
  void*& buffer = buffers_[device];
  if (!buffer) {
    buffer = allocate_on_gpu(bytes_, "the buffer that fills the L2");
    LADDER_CUDA(cudaMemset(buffer, 0, bytes_));
    LADDER_CUDA(cudaDeviceSynchronize());
  }
  return buffer;
}

void L2Flush::read(cudaStream_t stream, Ranks ranks) {
  on_all(stream, ranks, [&](int device, cudaStream_t its) {
    auto* const data = static_cast<uint4*>(buffer_of(device));
    constexpr int kTimes = 2;  // which lines the L2 replaces is its secret
    for (int i = 0; i < kTimes; ++i) {
      read_kernel<<<kBlocks, kThreads, 0, its>>>(data, bytes_ / sizeof *data, &data->x);
    }
    LADDER_CUDA(cudaGetLastError());
  });
}

void L2Flush::write(cudaStream_t stream, Ranks ranks) {
  on_all(stream, ranks, [&](int device, cudaStream_t its) {
    LADDER_CUDA(cudaMemsetAsync(buffer_of(device), 0, bytes_, its));
  });
}

}  // namespace ladder
