// Idea      where tiles are fewer than SMs, the blocks of a cluster share a tile by splitting K,
//           and add up what they have in each other's shared memory
// Vs v13    a block has one part of one tile. C is computed as its transpose, because wgmma takes
//           64 rows but as few as 8 columns: where C has few rows they are the columns of wgmma,
//           and no product is wasted. Sums are added in the order of the blocks: every run gives
//           the same
// Bound by  DRAM bandwidth where C has few rows
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      up to 16 rows 16 x 64 x 64, 11 stages of 10 KiB; up to 64 64 x 128 x 64, 4 stages of
//           24; two blocks per SM. Up to 128 128 x 128 x 64, 7 stages of 32 KiB; else 256 x 128 x
//           64, 4 stages of 48 KiB; one block per SM. A warpgroup has 64 columns
#include "split_k.hpp"

namespace {

using namespace gemm_split_k;

using Shape16 = Shape<16, 64, 2>;
using Shape64 = Shape<64, 128, 2>;
using Shape128 = Shape<128, 128, 1>;
using Shape256 = Shape<256, 128, 1>;

template <class Op>
struct SplitK {
  static constexpr ladder::Version version{"blocks of a cluster split K"};

  /// As many blocks as there is room for at one time, and a slice for each.
  template <class S, class T>
  static void multiply(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.m, S::BM)} * ladder::ceil_div(g.n, S::BN);
    int splits = 1;
    for (const int more : kSplits) {
      if (tiles * more <= places<Op, S, T, T>(more) && g.k >= more * BK) splits = more;
    }
    gemm_split_k::launch<Op, S>(g, splits, stream);
  }

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // there are no maps of nothing
      ladder::fill_async(g.c, 0, sizeof(T) * g.m * g.n, stream);
      return;
    }
    (g.m <= 16    ? multiply<Shape16, T>
     : g.m <= 64  ? multiply<Shape64, T>
     : g.m <= 128 ? multiply<Shape128, T>
                  : multiply<Shape256, T>)(g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_slices::supports<Op>(p);
  }
};

const ladder::Register<SplitK<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
