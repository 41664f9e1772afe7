// The launcher of v13's kernel, which v21 launches too. It is compiled once, in v13.
#pragma once

#include "gemm_tensor.hpp"

namespace gemm_persistent {

/// g.c = A * B; M, N and K are at least 1.
template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream);

}  // namespace gemm_persistent
