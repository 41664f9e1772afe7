// Idea      bias and gelu as an epilogue: applied to the sums while they are in registers
// Vs v21    one kernel, and C goes to memory once. The bias of a tile is read when the tile begins,
//           so nobody waits for it. While one warpgroup is at its gelu the other one multiplies:
//           the ring lets it run ahead by 4 slices, which take longer than that
// Bound by  power, as v13
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes; K at least 1
// Tile      as in v13; 32 words of bias in the registers of a thread
#include "persistent.hpp"

namespace {

struct Fused {
  static constexpr ladder::Version version{"bias and gelu on the sums in registers"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    constexpr int BN = 256;
    const gemm_slices::BiasGelu<T, BN> epilogue{g.bias, g.n};
    gemm_persistent::launch<gemm_tensor_nt, BN>(g, stream, epilogue);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.k == 0) return ladder::unsupported("K is 0: no slice, and so no tile");
    return gemm_slices::supports<gemm_tensor_nt>(p);
  }
};

const ladder::Register<Fused, gemm_tensor_nt_bias_gelu, half, ladder::bfloat16> registration;

}  // namespace
