// What v20 chooses from, for versions that choose in other ways. v20_autotuned.sm90a.cu has it compiled.
#pragma once

#include "gemm_tensor.hpp"

#include <vector>

namespace gemm_choice {

/// Which of v20's shapes of tile, and which of its ways to share out a product.
struct Choice {
  int shape = 0, way = 0;
  double ns = 0;  ///< by the estimate
};

/// Those with which a product takes the least time by v20's estimate, at most `most`, the fastest first.
/// M, N and K are not 0. Rows of A and B are at multiples of 16 bytes, as pitches of the args may have it.
template <class Op, class T, class C>
std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most);

/// The first of them, remembered by each thread for its problems.
template <class Op, class T, class C>
Choice best(const gemm_tensor::Args<T, C>& g);

/// Bytes of scratch memory that one of a product's choices takes.
template <class Op, class T, class C>
std::size_t workspace(const gemm_tensor::Args<T, C>& g, Choice choice);

template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, Choice choice, cudaStream_t stream);

}  // namespace gemm_choice
