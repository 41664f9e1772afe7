// Idea      split-K: where tiles are too few for the SMs, the sum over K is shared among blocks
// Vs v14    each block multiplies a part of K, and a second kernel adds up the partial sums, always
//           in the same order: the result does not depend on which block was first
// Bound by  instruction issue; partial sums are written and read once more, out of L2 mostly
// Tile      as in v14: 128 x 256 x 8, or 64 x 128 x 16, which alone is split
//
// The number of splits: as many as there are places for blocks per small tile, so that one wave of
// blocks fills the GPU; but a part of K is never less than 8 slices, or what a block saves by
// stopping early goes into partial sums.
//
// The kernels are in tiles.hpp and partial_sums.hpp, because v20 has them too.
#include "device/multiprocessors.hpp"
#include "partial_sums.hpp"
#include "tiles.hpp"

namespace {

struct SplitK {
  static constexpr ladder::Version version{"K split among blocks where tiles are few"};
  using Big = Shape<128, 256, 8, 64, 64, 4, 1>;
  using Small = Shape<64, 128, 16, 32, 64, 3, 3>;
  static constexpr int kLeastSlices = 8;

  /// Whether big tiles leave no SM without a block, and are not mostly padding.
  static bool is_big(const gemm::Args<float>& g) {
    const std::int64_t big = tiles_of<Big>(g);
    return big * 100 >= ladder::multiprocessors() * std::int64_t{96} &&
           tiles_of<Small>(g) > 3 * big;
  }
  static int splits(const gemm::Args<float>& g) {
    if (g.m == 0 || g.n == 0 || is_big(g)) return 1;
    const std::int64_t places = ladder::multiprocessors() * Small::kBlocksPerSm;
    const std::int64_t most = ladder::ceil_div(g.k, Small::BK) / kLeastSlices;
    return static_cast<int>(max(std::int64_t{1}, min(places / tiles_of<Small>(g), most)));
  }
  static std::size_t workspace(const gemm::Args<float>& g) {
    return partial_sums_bytes(g, splits(g));
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (is_big(g)) return launch_tiles<Big>(g, plan_of<Big>(g), 1, stream);
    const int parts = splits(g);
    launch_tiles<Small>(g, plan_of<Small>(g), parts, stream);
    if (parts > 1) launch_add_up(g, parts, stream);
  }
};

const ladder::Register<SplitK, gemm, float> registration;

}  // namespace
