// The launcher of v18's kernel, for operands that lie along K. v23 launches it too. It is compiled
// once, in v18, for tf32 and e4m3.
#pragma once

#include "gemm_tensor.hpp"

namespace gemm_k_major {

/// A or B: [mn][pitch], the pitch a multiple of 16 bytes.
template <class T>
struct Operand {
  const T* data;
  int pitch;
};

/// g.c = a * b; M, N and K, at least 1, are g's, g.a and g.b are not looked at.
template <class T>
void launch(const Operand<T>& a, const Operand<T>& b, const gemm_tensor::Args<T>& g,
            cudaStream_t stream);

}  // namespace gemm_k_major
