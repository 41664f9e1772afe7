// The second kernel of split K, of v15, which v20 launches too. It is compiled once, in v15.
#pragma once

#include "gemm.hpp"

/// Bytes of the partial sums; none where K is not split.
inline std::size_t partial_sums_bytes(const gemm::Args<float>& g, int splits) {
  const auto matrix = static_cast<std::size_t>(g.m) * static_cast<std::size_t>(g.n);
  return splits == 1 ? 0 : static_cast<std::size_t>(splits) * matrix * sizeof(float);
}

/// C = the sum of the `splits` matrices of partial sums in the workspace, first to last.
void launch_add_up(const gemm::Args<float>& g, int splits, cudaStream_t stream);
