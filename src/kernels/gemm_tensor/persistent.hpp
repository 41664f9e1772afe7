// The launcher of v13's kernel, which v20 and v21 launch too. It is compiled once, in v13.
#pragma once

#include "gemm_tensor.hpp"

namespace gemm_persistent {

constexpr int BM = 128;

/// g.c = A * B in tiles of BM x BN, with BN 256 or 224; M, N and K are at least 1.
template <class Op, int BN, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream);

}  // namespace gemm_persistent
