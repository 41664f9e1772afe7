// The launchers of v27's kernels, v27b's and v27c's, which v20 launches too. They are compiled once, there.
#pragma once

#include "gemm_tensor.hpp"

#include <vector>

namespace gemm_realigned {

/// Which of v27's or v27c's shapes of tile, how many blocks share one, and what that is estimated to take.
struct Choice {
  int shape = 0, parts = 1;
  double ns = 0;
};

/// At most `most`, the fastest first. M, N and K are at least 1.
template <class Op, class T, class C>
std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most);

template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream);

/// v27b, for K of up to kShortK, and what that is estimated to take, in ns.
constexpr int kShortK = 256;

template <class Op, class T, class C>
double ns_of_short_k(const gemm_tensor::Args<T, C>& g);

template <class Op, class T, class C>
void launch_short_k(const gemm_tensor::Args<T, C>& g, cudaStream_t stream);

/// v27c, for few rows or columns. The workspace has a copy of the small operand.
template <class Op, class T, class C>
std::vector<Choice> choices_of_one(const gemm_tensor::Args<T, C>& g, std::size_t most);
template <class Op, class T, class C>
std::size_t workspace_of_one(const gemm_tensor::Args<T, C>& g, const Choice& choice);
template <class Op, class T, class C>
void launch_one(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream);

}  // namespace gemm_realigned

/// instantiate(Op, T, C) of everything that v20 multiplies, and these for it.
// clang-format off
#define LADDER_EACH_PRODUCT(instantiate)                           \
  instantiate(gemm_tensor_nn, ladder::bfloat16, ladder::bfloat16)  \
  instantiate(gemm_tensor_nt, ladder::half, ladder::half)          \
  instantiate(gemm_tensor_nt, ladder::bfloat16, ladder::bfloat16)  \
  instantiate(gemm_tensor_tn, ladder::bfloat16, ladder::bfloat16)  \
  instantiate(gemm_tensor_tn, ladder::bfloat16, float)
// clang-format on
