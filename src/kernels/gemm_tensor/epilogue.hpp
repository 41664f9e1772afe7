// The epilogue of v22: what is done to the accumulators of a tile before they are stored. The
// kernel calls `load` when it begins a tile, so that the loads complete during the products, and
// `apply` on the accumulators, which are in the layout of wgmma (device/ptx/wgmma.hpp).
#pragma once

#include "device/pairs.hpp"
#include "kernels/elementwise/approx.hpp"
#include "kernels/elementwise/elementwise.hpp"

namespace gemm_k_tiles {

using ladder::pack;
using ladder::unpack;

/// gelu in the form with tanh, and with the hardware's tanh: one instruction, and a result that may
/// be wrong by |x| / 4096. What that means beside other errors: reference.hpp.
__device__ __forceinline__ float gelu(float x) {
  const float half_x = 0.5f * x;
  return fmaf(half_x, elementwise::tanh_approx(elementwise::gelu_tanh::w(x)), half_x);
}

/// gelu(sum + bias), of kCols columns. A thread has the same two neighbours in every 8 columns, so
/// its bias is kCols / 8 words.
template <class T, int kCols>
struct BiasGelu {
  struct Loaded {
    std::uint32_t word[kCols / 8];
  };

  /// From a column on that is a multiple of 8; n is one, too.
  __device__ Loaded load(int column) const {
    Loaded loaded{};
    const T* const from = bias + column + threadIdx.x % 4 * 2;
    const int left = n - column;
#pragma unroll
    for (int j = 0; j < kCols / 8; ++j) {
      if (j * 8 >= left) continue;
      loaded.word[j] = __ldg(reinterpret_cast<const std::uint32_t*>(from + j * 8));
    }
    return loaded;
  }

  template <int kAccumulators>
  __device__ void apply(float (&acc)[kAccumulators], const Loaded& loaded) const {
    static_assert(kAccumulators == kCols / 2);
#pragma unroll
    for (int j = 0; j < kCols / 8; ++j) {
      const float2 pair = unpack<T>(loaded.word[j]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& s = acc[j * 4 + i];
        s = gelu(s + (i % 2 == 0 ? pair.x : pair.y));
      }
    }
  }

  const T* bias;  // [n]
  int n;
};

}  // namespace gemm_k_tiles
