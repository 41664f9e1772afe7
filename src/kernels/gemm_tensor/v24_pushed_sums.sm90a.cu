// Idea      the blocks of a cluster send each other their sums as soon as they have them, and each
//           waits for what it is sent, instead of all of them for all
// Vs v15    sums go from registers to the shared memory of the block that adds them up (st.async),
//           and count as bytes at a barrier there: two barriers of the cluster and the way there and
//           back of every load are gone. Tiles of 128 x 64, so that problems of few tiles, whose
//           ends weigh most, have more of them
// Bound by  shared memory: 24 KiB are written and 24 read for 256 cycles of the tensor cores
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      128 x 64 x 64, a warpgroup with 64 columns; stages of 24 KiB, as many as there is room for
//           beside 32 KiB of sums at most; one block per SM
#include "pushed_sums.hpp"

namespace {

using namespace gemm_pushed_sums;

template <class Op>
struct PushedSums {
  static constexpr ladder::Version version{"blocks that split K send each other their sums"};
  using Tile = Shape<128, 64, 1>;

  /// As many blocks as there is room for at one time, and a slice for each.
  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // there are no maps of nothing
      ladder::fill_async(g.c, 0, sizeof(T) * g.m * g.n, stream);
      return;
    }
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.m, Tile::BM)} * ladder::ceil_div(g.n, Tile::BN);
    int splits = 1;
    for (const int more : kSplits) {
      if (tiles * more <= places<Op, Tile, T>(more) && g.k >= more * BK) splits = more;
    }
    gemm_pushed_sums::launch<Op, Tile>(g, splits, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_slices::supports<Op>(p);
  }
};

const ladder::Register<PushedSums<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
