// Idea      as many blocks as SMs, each of which takes tile after tile: the producer never stops,
//           and the next tile's slices are there when the sums are stored
// Vs v12    sums go through shared memory to TMA, in whole lines, and while it stores them their
//           warps multiply again. The two warpgroups drift apart, so that one stores while the
//           other has the tensor cores for itself. Tiles are taken in bands, so that blocks share
//           in the L2
// Bound by  power: the clock falls until the board keeps to its limit. Not far from it the L2: at
//           full rate 48 bytes per cycle would go from there to every SM
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      128 x 256 x 64, two warpgroups of 64 x 256, 4 stages of 48 KiB and 4 KiB per warp for
//           sums, one block per SM
//
// C in fp32 (tn_f32) goes from registers to memory, since stmatrix is for 16 bits (store.hpp).
#include "persistent.hpp"

namespace {

template <class Op>
struct Persistent {
  static constexpr ladder::Version version{"a block per SM takes tile after tile"};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // there are no maps of nothing
      ladder::fill_async(g.c, 0, sizeof(C) * g.m * g.n, stream);
      return;
    }
    gemm_persistent::launch<Op, 256>(g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_slices::supports<Op>(p);
  }
};

const ladder::Register<Persistent<gemm_tensor_nn>, gemm_tensor_nn, half, ladder::bfloat16> nn;
const ladder::Register<Persistent<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Persistent<gemm_tensor_tn>, gemm_tensor_tn, half, ladder::bfloat16> tn;
const ladder::Register<Persistent<gemm_tensor_tn>, gemm_tensor_tn_f32, half, ladder::bfloat16>
    tn_f32;

}  // namespace
