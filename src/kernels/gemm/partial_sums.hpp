// What comes after a split of K: as many matrices of partial sums as there are parts, one behind the
// other, are added up. Always in the same order, so that results do not depend on which block was
// first.
#pragma once

#include "aligned_rows.hpp"
#include "gemm.hpp"

namespace {

constexpr int kSumThreads = 256;

/// C = the sum of the matrices in the workspace, first to last; in vectors of W floats.
template <int W>
__global__ void __launch_bounds__(kSumThreads) add_up(gemm::Args<float> g, int splits) {
  const std::int64_t size = std::int64_t{g.m} * g.n;
  const std::int64_t i = (blockIdx.x * std::int64_t{kSumThreads} + threadIdx.x) * W;
  if (i >= size) return;
  const float* const from = static_cast<const float*>(g.workspace) + i;
  if constexpr (W == V) {
    Vec sum = Vec::load(from);
#pragma unroll 4
    for (int z = 1; z < splits; ++z) {
      const Vec part = Vec::load(from + z * size);
#pragma unroll
      for (int e = 0; e < V; ++e) sum[e] += part[e];
    }
    sum.store(g.c + i);
  } else {
    float sum = *from;
#pragma unroll 4
    for (int z = 1; z < splits; ++z) sum += from[z * size];
    g.c[i] = sum;
  }
}

/// Bytes of the partial sums; none where K is not split.
inline std::size_t partial_sums_bytes(const gemm::Args<float>& g, int splits) {
  const auto matrix = static_cast<std::size_t>(g.m) * static_cast<std::size_t>(g.n);
  return splits == 1 ? 0 : static_cast<std::size_t>(splits) * matrix * sizeof(float);
}

inline void launch_add_up(const gemm::Args<float>& g, int splits, cudaStream_t stream) {
  const std::int64_t size = std::int64_t{g.m} * g.n;
  const bool aligned = reinterpret_cast<std::uintptr_t>(g.c) % sizeof(Vec) == 0 && size % V == 0;
  const std::int64_t blocks = ladder::ceil_div(aligned ? size / V : size, kSumThreads);
  ladder::launch(aligned ? add_up<V> : add_up<1>, static_cast<unsigned>(blocks), kSumThreads, 0,
                 stream, g, splits);
}

}  // namespace
