// Idea      a dispatcher: the fastest of the kernels of v13, v15 and v24 for each problem, by a
//           table of what each shape of tile reaches
// Vs v15    tiles of 128 x 256 that a block per SM takes one after the other, as in v13; the same
//           of 128 x 224, for problems whose tiles of 256 leave SMs idle in the last wave; and the
//           shapes of v15 and v24 for any M. Taken are the shape and the number of splits with the
//           lowest estimate
// Bound by  power; with few rows DRAM bandwidth
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      of the table below, in registers and shared memory as in v13 and v15
//
// The estimate, in nanoseconds: the K-tiles of the blocks that the busiest SM gets, times what the
// table gives for a K-tile; the time in which DRAM could read A and B and write C; the square root
// of the sum of their squares, because they overlap, but not quite. For v15 and v24 also the
// accumulators of each block, which go through shared memory.
//
// scripts/autotune.py fits the table to times that it measures, and chooses the shapes among those of
// tile_shapes.hpp.
#include "device/gpu_name.hpp"
#include "tile_shapes.hpp"

#include <cmath>

namespace {

template <int kShapes>
struct Gpu {
  const char* name;
  double ns_of_k_tile[kShapes];  // in the order of Tiles
  double dram_bytes_per_ns;
  double sum_bytes_per_ns;  // of an SM
};

// clang-format off
// autotune:begin
using Tiles = Shapes<
    PushedSums<128, 128, 1>,
    Persistent<256>,
    PushedSums<128, 64, 1>,
    SplitK<16, 64, 2>,
    SplitK<256, 128, 1>,
    Persistent<224>>;
constexpr Gpu<6> kGpus[] = {
    {"NVIDIA H100 80GB HBM3", {344, 591, 241, 146, 640, 545}, 2487, 41},
};
// autotune:end
// clang-format on

/// Which of Tiles, and in how many parts K is split.
struct Choice {
  int shape = 0, splits = 1;
  double ns = 1e300;

  template <class Op, class T, class C, class... S>
  static Choice of(Shapes<S...>, const gemm_tensor::Args<T, C>& g) {
    Choice choice;
    int number = 0;
    (choice.consider<Op, S>(number++, g), ...);
    return choice;
  }

 private:
  template <class Op, class S, class T, class C>
  void consider(int number, const gemm_tensor::Args<T, C>& g) {
    const auto& gpu = ladder::entry_of_this_gpu(kGpus);
    const double ns_of_k_tile = gpu.ns_of_k_tile[number];
    if (ns_of_k_tile == 0) return;  // not measured there
    if (!S::template kStores<C>) return;
    const double m = g.m, n = g.n, k = g.k;
    const double tiles = std::ceil(m / S::BM) * std::ceil(n / S::BN);
    const double dram = ((m * k + k * n) * sizeof(T) + m * n * sizeof(C)) / gpu.dram_bytes_per_ns;
    for (const int parts : S::kSplits) {
      const double at_once = S::template resident_blocks<Op, T, C>(parts);
      const double of_an_sm = std::ceil(tiles * parts * S::kBlocksPerSm / at_once);
      const double k_tiles = std::ceil(k / (gemm_k_tiles::kDepth * parts));
      const double estimate = std::hypot(of_an_sm * k_tiles * ns_of_k_tile, dram) +
                              of_an_sm * S::kSumBytes / gpu.sum_bytes_per_ns;
      if (estimate < ns) *this = {number, parts, estimate};
    }
  }
};

template <class Op, class T, class C, class... S>
void launch_choice(Shapes<S...>, const Choice& choice, const gemm_tensor::Args<T, C>& g,
                   cudaStream_t stream) {
  int number = 0;
  auto launch_if_chosen = [&]<class Shape>(Shape) {
    if constexpr (Shape::template kStores<C>) {
      if (number == choice.shape) Shape::template launch<Op>(g, choice.splits, stream);
    }
    ++number;
  };
  (launch_if_chosen(S{}), ...);
}

template <class Op>
struct Autotuned {
  static constexpr ladder::Version version{"the best of all, by a table"};
  // Blocks that split K, each with more K-tiles than stages
  static constexpr gemm_tensor::Problem test_problems[] = {{272, 16, 4112}, {16, 144, 4112}};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // a tensor map cannot be empty
      ladder::fill_async(g.c, 0, sizeof(C) * g.m * g.n, stream);
      return;
    }
    launch_choice<Op>(Tiles{}, Choice::of<Op, T>(Tiles{}, g), g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<Autotuned<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<Autotuned<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace
