// Idea      a dispatcher: the kernels of v24 and v25, each with several shapes of tile, and for each
//           problem the shape and the way to share it out that an estimate says is the fastest
// Vs v24    the shape follows from the problem, not the problem's time from the shape: large tiles,
//           persistent and with a divided last wave, for what the tensor cores are busy with; small
//           ones, many on an SM, for what is over soon; pairs of blocks that load for each other where
//           all SMs load lines that rows do not begin at
// Bound by  power; with few rows DRAM bandwidth; small problems latency
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      of the table below, in registers and shared memory as in v24 and v25
//
// The estimate, in nanoseconds. A block has so many K-tiles one after the other. Each takes what the
// tensor cores take, or what the L2 takes to deliver its lines to all the SMs that load at a time,
// whichever is more: the fourth root of the sum of fourth powers is about that. Rows of 128 bytes that
// do not begin at a multiple of 128 lie in two lines. Tiles take a time for their beginnings and ends,
// and divided ones for adding up. All of it runs beside DRAM, which reads A and B and writes C, but not
// quite: the square root of the sum of squares. tile_shapes.hpp has the terms.
//
// scripts/autotune.py fits the numbers to times that it measures; those of the H100 are from a forerunner
// of it, whose times are not in results/. They know nothing of a problem but what the estimate sees of
// it, so that a problem nobody has measured is no different from others.
#include "device/gpu_name.hpp"
#include "tile_shapes.hpp"

#include <array>

namespace {

template <int kShapes>
struct Gpu {
  const char* name;
  double ns_of_k_tile[kShapes], ns_of_tile[kShapes];  // in the order of Tiles
  Rates rates;
};

// clang-format off
// autotune:begin
using Tiles = Shapes<
    StreamK<256, false, 1>,
    StreamK<256, false, 2>,
    StreamK<208, true, 2>,
    StreamK<192, false, 2>,
    StreamK<192, true, 1>,
    StreamK<160, true, 2>,
    PushedSums<32, 64, 1>,
    PushedSums<64, 64, 2>,
    PushedSums<128, 64, 1>,
    PushedSums<96, 128, 1>,
    PushedSums<128, 128, 1>,
    PushedSums<32, 128, 1>>;
constexpr Gpu<12> kGpus[] = {
    {"NVIDIA H100 80GB HBM3",
     {515, 595, 510, 447, 406, 397, 172, 164, 194, 268, 296, 215},
     {2028, 2535, 2342, 2037, 1837, 1976, 274, 492, 870, 1350, 1842, 636},
     2293, 1.78, 0.37, 6.9, 2316, 209, 824},
};
// autotune:end
// clang-format on

/// Which of Tiles, and which of its ways.
struct Choice {
  int shape = 0, way = 0;
};

template <class Op, class T, class C>
class Chooser {
 public:
  explicit Chooser(const gemm_tensor::Args<T, C>& of)
      : g(of), gpu(ladder::entry_of_this_gpu(kGpus)), sizes(Sizes::of<Op>(of)) {}

  template <class... S>
  Choice among(Shapes<S...>) {
    int shape = 0;
    (consider<S>(shape++), ...);
    return choice;
  }

 private:
  template <class S>
  void consider(int shape) {
    const Pace pace{gpu.ns_of_k_tile[shape], gpu.ns_of_tile[shape]};
    if (pace.k_tile == 0) return;  // not measured there
    for (int number = 0; number < S::kWays; ++number) {
      const typename S::Way way = S::way(number, g.m, g.n, g.k);
      if (way.clusters == 0) continue;
      const double ns = std::hypot(S::template ns<Op, T, C>(sizes, way, pace, gpu.rates),
                                   sizes.bytes / gpu.rates.dram);
      if (ns < least) {
        least = ns;
        choice = {shape, number};
      }
    }
  }

  const gemm_tensor::Args<T, C>& g;
  const Gpu<Tiles::kCount>& gpu;
  const Sizes sizes;
  double least = 1e300;
  Choice choice;
};

/// The choice, remembered by each thread for its problems: a hundred estimates take microseconds.
template <class Op, class T, class C>
Choice choice_for(const gemm_tensor::Args<T, C>& g) {
  struct Known {
    int m = 0, n = 0, k = 0;
    Choice choice;
  };
  thread_local std::array<Known, 256> all{};
  Known& known = all[(g.m * 31u + g.n * 17u + g.k) % all.size()];
  if (known.m != g.m || known.n != g.n || known.k != g.k) {
    known = {g.m, g.n, g.k, Chooser<Op, T, C>(g).among(Tiles{})};
  }
  return known.choice;
}

/// Calls use(shape, way) with the chosen ones.
template <class Op, class T, class C, class Use, class... S>
void with_choice(Shapes<S...>, const gemm_tensor::Args<T, C>& g, Use use) {
  const Choice choice = choice_for<Op>(g);
  int shape = 0;
  auto use_if_chosen = [&]<class Shape>(Shape one) {
    if (shape++ == choice.shape) use(one, Shape::way(choice.way, g.m, g.n, g.k));
  };
  (use_if_chosen(S{}), ...);
}

template <class Op>
struct Autotuned {
  static constexpr ladder::Version version{"the best shape of tile, by an estimate"};
  // Few rows and columns; blocks that split K; a divided last wave; pairs of blocks
  static constexpr gemm_tensor::Problem test_problems[] = {
      {16, 16, 72}, {272, 16, 4112}, {16, 144, 4112}, {264, 520, 136}, {1032, 776, 136}};

  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g) {
    std::size_t bytes = 0;
    if (g.m > 0 && g.n > 0 && g.k > 0) {
      with_choice<Op>(Tiles{}, g,
                      [&](auto shape, const auto& way) { bytes = shape.workspace(way); });
    }
    return bytes;
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (g.k == 0) {  // a tensor map cannot be empty
      ladder::fill_async(g.c, 0, sizeof(C) * g.m * g.n, stream);
      return;
    }
    with_choice<Op>(Tiles{}, g, [&](auto shape, const auto& way) {
      shape.template launch<Op>(g, way, stream);
    });
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
