// Idea      the best of the rungs before for each problem, by a table of what each shape can do
// Vs v15    tiles of 128 x 256 that a block per SM takes one after the other, as in v13; the same
//           of 128 x 224, for problems whose tiles of 256 leave SMs idle in the last turn; and v15's
//           shapes for any M. Shape and number of splits are those with the lowest estimate
// Bound by  power; with few rows DRAM bandwidth
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      of the table below, in registers and shared memory as in v13 and v15
//
// The estimate, in nanoseconds: the slices of the blocks that the busiest SM gets, times what the
// table gives for a slice; the time in which DRAM could read A and B and write C; the square root
// of the sum of their squares, because they overlap, but not quite. For split K the sums, which go
// through shared memory, and a barrier of the cluster.
#include "persistent.hpp"
#include "split_k.hpp"

#include <cmath>

namespace {

using namespace gemm_split_k;

constexpr double kNsOfSlice[] = {
    // autotune:begin
    660,  // 128 x 256
    590,  // 128 x 224
    130,  // split K: 16 x 64
    360,  // 64 x 128
    480,  // 128 x 128
    740,  // 256 x 128
          // autotune:end
};
constexpr double kDramBytesPerNs = 2700;
constexpr double kSumBytesPerNs = 60;  // of an SM
constexpr double kClusterNs = 1000;    // until all blocks of a cluster are there, and gone

/// A line of the table, and in how many parts K is split.
struct Choice {
  int shape = 0, splits = 1;
  double ns = 1e300;

  template <class T, class C>
  explicit Choice(const gemm_tensor::Args<T, C>& g) {
    consider(0, 1, ladder::multiprocessors(), 128, 256, g);
    consider(1, 1, ladder::multiprocessors(), 128, 224, g);
    consider<Shape16>(2, g);
    consider<Shape64>(3, g);
    consider<Shape128>(4, g);
    consider<Shape256>(5, g);
  }

 private:
  template <class T, class C>
  void consider(int line, int parts, int sms, int rows, int cols, const gemm_tensor::Args<T, C>& g,
                double more_ns = 0) {
    const double m = g.m, n = g.n, k = g.k;
    const double tiles = std::ceil(m / rows) * std::ceil(n / cols);
    const double of_an_sm = std::ceil(tiles * parts / sms);
    const double slices = std::ceil(k / (BK * parts));
    const double bytes = (m * k + k * n) * sizeof(T) + m * n * sizeof(C);
    const double estimate =
        std::hypot(of_an_sm * slices * kNsOfSlice[line], bytes / kDramBytesPerNs) + more_ns;
    if (estimate >= ns) return;
    shape = line;
    splits = parts;
    ns = estimate;
  }
  template <class S, class T, class C>
  void consider(int line, const gemm_tensor::Args<T, C>& g) {
    for (const int parts : kSplits) {
      consider(line, parts, places<S>(parts) / S::kBlocksPerSm, S::BM, S::BN, g,
               sizeof(float) * S::BM * S::BN / kSumBytesPerNs + (parts > 1 ? kClusterNs : 0));
    }
  }
};

template <class Op>
struct Autotuned {
  static constexpr ladder::Version version{"the best of all, by a table"};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // there are no maps of nothing
      ladder::fill_async(g.c, 0, sizeof(C) * g.m * g.n, stream);
      return;
    }
    const Choice choice(g);
    switch (choice.shape) {
      case 0:
        return gemm_persistent::launch<Op, 256>(g, stream);
      case 1:
        return gemm_persistent::launch<Op, 224>(g, stream);
      case 2:
        return gemm_split_k::launch<Op, Shape16>(g, choice.splits, stream);
      case 3:
        return gemm_split_k::launch<Op, Shape64>(g, choice.splits, stream);
      case 4:
        return gemm_split_k::launch<Op, Shape128>(g, choice.splits, stream);
      default:
        return gemm_split_k::launch<Op, Shape256>(g, choice.splits, stream);
    }
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_slices::supports<Op>(p);
  }
};

const ladder::Register<Autotuned<gemm_tensor_nn>, gemm_tensor_nn, half, ladder::bfloat16> nn;
const ladder::Register<Autotuned<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn, half, ladder::bfloat16> tn;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn_f32, half, ladder::bfloat16>
    tn_f32;

}  // namespace
