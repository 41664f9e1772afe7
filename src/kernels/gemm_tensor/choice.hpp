// What v20 chooses from, for versions that choose in other ways. v20_autotuned.sm90a.cu has it compiled.
#pragma once

#include "gemm_tensor.hpp"

#include <vector>

namespace gemm_choice {

/// How A and B come to the tensor cores: by TMA, which wants their rows at multiples of 16 bytes; by TMA
/// from v26's copies; or by the warps of v27, or of v27b; or by TMA and warps, as in v27c.
enum class Operands {
  tma_loads,
  are_copied,
  are_realigned,
  are_realigned_at_once,
  one_is_realigned
};

/// One way to multiply, on the current device.
struct Choice {
  Operands operands = Operands::tma_loads;
  /// By TMA v20's tile, and how it shares out a product: 0 if each block has a tile of its own, in no cluster and
  /// undivided. Else v27's or v27c's tile, and how many blocks have one.
  int shape = 0, way = 0;
  int clusters = 0,
      divided = 0;  ///< by TMA: those at work, and the tiles that v25's divide among them
  double ns = 0;    ///< by the estimate
};

/// Those with which a product takes the least time by v20's estimate, at most `most` for each way that its
/// operands can come, the fastest first. M, N and K are not 0.
template <class Op, class T, class C>
std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most);

/// Those by TMA. Rows of A and B are at multiples of 16 bytes, as pitches of the args may have it.
template <class Op, class T, class C>
std::vector<Choice> choices_by_tma(const gemm_tensor::Args<T, C>& g, std::size_t most);

/// Bytes of scratch memory that one of a product's choices takes.
template <class Op, class T, class C>
std::size_t workspace(const gemm_tensor::Args<T, C>& g, const Choice& choice);

/// Bytes of state, enough for any of its choices on any GPU.
std::size_t state(int m, int n, int k);

template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, void* state,
            cudaStream_t stream);

}  // namespace gemm_choice
