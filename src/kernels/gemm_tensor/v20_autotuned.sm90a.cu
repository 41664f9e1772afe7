// Idea      a dispatcher: the kernels of v24 and v25, each with several shapes of tile, and for each
//           problem the shape and the way to share it out that an estimate says is the fastest
// Vs v24    the shape follows from the problem, not the problem's time from the shape: large tiles,
//           persistent and with a divided last wave, for what the tensor cores are busy with; small
//           ones, many on an SM, for what is over soon; blocks of a cluster that load for each other
//           where all SMs load lines that rows do not begin at
// Bound by  power; with few rows DRAM bandwidth; small problems latency
// Limits    compute capability 9.0
// Tile      of the table below, in registers and shared memory as in v24 and v25
//
// The estimate, in nanoseconds. A block has so many K-tiles one after the other. Each takes what the
// tensor cores take, or what the L2 takes to deliver its lines to all the SMs that load at a time,
// whichever is more: the fourth root of the sum of fourth powers is about that. Rows of 128 bytes that
// do not begin at a multiple of 128 lie in two lines, and at an odd multiple of 16 in five sectors.
// Tiles take a time for their beginnings and ends, divided ones for adding up, blocks that exchange sums
// for that, and v25's kernels, which have more to prepare, begin later. All of it runs beside
// DRAM, which reads A and B and writes C, but not quite: the square root of the sum of squares.
// tile_shapes.hpp has the terms. Where rows of A or B do not start at multiples of 16 bytes, it is either
// the same kernels with copies of them, as in v26, or v27's, or where K is short v27b's.
//
// scripts/autotune.py fits the numbers to times that it measures. They know nothing of a problem but what
// the estimate sees of it, so that a problem nobody has measured is no different from others.
#include "choice.hpp"
#include "device/estimate.hpp"
#include "device/gpu_name.hpp"
#include "padded_rows.hpp"
#include "realigned.hpp"
#include "tile_shapes.hpp"

#include <algorithm>
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
    StreamK<256, 160, true, 1, 2>,
    StreamK<256, 144, true, 1, 2>,
    StreamK<192, 192, true, 2, 1>,
    StreamK<192, 112, true, 2, 2>,
    StreamK<192, 96, true, 2, 4>,
    StreamK<128, 256, false, 2, 1>,
    StreamK<128, 256, true, 2, 2>,
    StreamK<128, 224, true, 2, 1>,
    StreamK<128, 192, false, 2, 1>,
    StreamK<128, 192, false, 2, 2>,
    StreamK<128, 144, true, 1, 4>,
    StreamK<128, 128, false, 1, 4>,
    StreamK<128, 128, false, 2, 2>,
    StreamK<128, 128, false, 4, 1>,
    StreamK<64, 192, true, 4, 1>,
    StreamK<64, 128, false, 1, 2>,
    StreamK<64, 128, false, 2, 4>,
    PushedSums<16, 64, 2>,
    PushedSums<32, 64, 2>,
    PushedSums<64, 64, 2>,
    PushedSums<96, 64, 1>,
    PushedSums<128, 64, 1>,
    PushedSums<96, 128, 1>,
    PushedSums<128, 128, 1>>;
constexpr Gpu<24> kGpus[] = {
    {"NVIDIA H100 80GB HBM3",
     {697, 638, 610, 470, 464, 541, 607, 518, 431, 463, 358, 306, 317, 296, 266, 221, 250, 84, 1, 123, 148, 160, 212, 283},
     {1560, 1948, 1195, 567, 116, 928, 885, 788, 564, 517, 845, 251, 261, 398, 725, 62, 162, 268, 292, 436, 760, 1006, 1731, 2132},
     2344, 1.8, 0.1663, 0.4455, 6.039, 2017, 192, 537.7, 1701},
    {"NVIDIA H200",
     {777, 688, 681, 472, 458, 600, 625, 537, 458, 479, 359, 322, 325, 320, 272, 234, 258, 1, 1, 110, 123, 1, 203, 295},
     {1306, 1959, 888, 908, 314, 790, 1084, 812, 491, 604, 1135, 340, 404, 375, 876, 183, 244, 341, 410, 622, 922, 1181, 1791, 2059},
     3335, 1.634, 0.4529, 0.1039, 5.998, 1500, 207.9, 493.4, 1670},
};
// autotune:end
// clang-format on

using gemm_choice::Choice;

/// Of all shapes in all ways that a product has.
template <class Op, class T, class C, class... S>
std::vector<Choice> estimates(const gemm_tensor::Args<T, C>& g, Shapes<S...>) {
  const Gpu<Tiles::kCount>& gpu = ladder::entry_of_this_gpu(kGpus);
  const Sizes sizes = Sizes::of<Op>(g);
  std::vector<Choice> all;
  int shape = 0;
  auto consider = [&]<class Of>(Of) {
    const Pace pace{gpu.ns_of_k_tile[shape], gpu.ns_of_tile[shape]};
    const int ways = pace.k_tile > 0 ? Of::kWays : 0;  // 0: not measured there
    for (int number = 0; number < ways; ++number) {
      const auto way = Of::template way<Op>(number, g);
      if (way.clusters == 0) continue;
      const double ns = Of::template ns<Op, T, C>(sizes, way, pace, gpu.rates);
      all.push_back({shape, number, std::hypot(ns, sizes.bytes / gpu.rates.dram)});
    }
    ++shape;
  };
  (consider(S{}), ...);
  return all;
}

bool is_faster(const Choice& a, const Choice& b) { return a.ns < b.ns; }

/// Calls use(shape, way) with the chosen ones.
template <class Op, class T, class C, class Use, class... S>
void with(Choice choice, const gemm_tensor::Args<T, C>& g, Use use, Shapes<S...>) {
  int shape = 0;
  auto use_if_chosen = [&]<class Of>(Of one) {
    if (shape++ == choice.shape) use(one, Of::template way<Op>(choice.way, g));
  };
  (use_if_chosen(S{}), ...);
}

}  // namespace

namespace gemm_choice {

template <class Op, class T, class C>
std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most) {
  std::vector<Choice> all = estimates<Op>(g, Tiles{});
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::partial_sort(all.begin(), end, all.end(), is_faster);
  all.erase(end, all.end());
  return all;
}

template <class Op, class T, class C>
Choice best(const gemm_tensor::Args<T, C>& g) {
  return ladder::remembered_choice<Choice>(std::array{g.m, g.n, g.k, g.pitch_a, g.pitch_b},
                                           [&] { return choices<Op>(g, 1).front(); });
}

template <class Op, class T, class C>
std::size_t workspace(const gemm_tensor::Args<T, C>& g, Choice choice) {
  std::size_t bytes = 0;
  auto add = [&](auto shape, const auto& way) { bytes = shape.workspace(way); };
  with<Op>(choice, g, add, Tiles{});
  return bytes;
}

template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, Choice choice, cudaStream_t stream) {
  auto run = [&](auto shape, const auto& way) { shape.template launch<Op>(g, way, stream); };
  with<Op>(choice, g, run, Tiles{});
}

}  // namespace gemm_choice

namespace {

using gemm_padded_rows::Plan;

constexpr double kCopyLaunch = 4000;  // ns of v26's copies, of however few bytes

template <class Op, class T, class C>
double ns_of_copied(const Plan<Op>& plan, const gemm_tensor::Args<T, C>& g) {
  return kCopyLaunch + gemm_choice::best<Op>(plan.pitched(g)).ns +
         plan.template traffic<T>() / ladder::entry_of_this_gpu(kGpus).rates.dram;
}

enum class Operands { tma_loads, are_copied, are_realigned, are_realigned_at_once };

/// How A and B come to the tensor cores: by TMA where their rows can; else with copies of them, or by v27's
/// or v27b's warps, whichever is the fastest.
template <class Op, class T, class C>
Operands operands(const Plan<Op>& plan, const gemm_tensor::Args<T, C>& g) {
  const bool aligned = plan.starts_aligned(g);
  if (aligned && !plan.copies()) return Operands::tma_loads;
  const double realigned = gemm_realigned::choose<Op>(g).ns;
  const double at_once =
      g.k <= gemm_realigned::kShortK ? gemm_realigned::ns_of_short_k<Op>(g) : HUGE_VAL;
  const double copied = aligned ? ns_of_copied(plan, g) : HUGE_VAL;
  if (copied <= std::min(realigned, at_once)) return Operands::are_copied;
  return realigned <= at_once ? Operands::are_realigned : Operands::are_realigned_at_once;
}

template <class Op>
struct Autotuned {
  static constexpr ladder::Version version{"the best shape of tile, by an estimate"};
  // Few rows and columns; blocks that split K; a divided last wave; pairs of blocks; copies of A and B
  static constexpr gemm_tensor::Problem test_problems[] = {{16, 16, 72},     {272, 16, 4112},
                                                           {16, 144, 4112},  {264, 520, 136},
                                                           {1032, 776, 136}, {515, 523, 321}};

  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g) {
    const Plan<Op> plan(g.m, g.n, g.k);
    if (g.m == 0 || g.n == 0 || g.k == 0) return 0;
    const Operands how = operands(plan, g);
    if (how == Operands::are_realigned || how == Operands::are_realigned_at_once) return 0;
    const gemm_tensor::Args<T, C> args = plan.pitched(g);
    return plan.template bytes<T>() + gemm_choice::workspace<Op>(args, gemm_choice::best<Op>(args));
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    const Operands how = operands(Plan<Op>(g.m, g.n, g.k), g);
    if (how == Operands::are_realigned_at_once) {
      return gemm_realigned::launch_short_k<Op>(g, stream);
    }
    if (how == Operands::are_realigned) {
      return gemm_realigned::launch<Op>(g, gemm_realigned::choose<Op>(g), stream);
    }
    const gemm_tensor::Args<T, C> args =
        how == Operands::are_copied ? gemm_padded_rows::make_copies<Op>(g, stream) : g;
    gemm_choice::launch<Op>(args, gemm_choice::best<Op>(args), stream);
  }
};

const ladder::Register<Autotuned<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<Autotuned<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

#define LADDER_INSTANTIATE(Op, T, C)                                                       \
  template std::vector<Choice> gemm_choice::choices<Op>(const gemm_tensor::Args<T, C>&,    \
                                                        std::size_t);                      \
  template Choice gemm_choice::best<Op>(const gemm_tensor::Args<T, C>&);                   \
  template std::size_t gemm_choice::workspace<Op>(const gemm_tensor::Args<T, C>&, Choice); \
  template void gemm_choice::launch<Op>(const gemm_tensor::Args<T, C>&, Choice, cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE
