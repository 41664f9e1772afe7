// Idea      a dispatcher: the kernels of v24 and v25, each with several shapes of tile, and for each
//           problem the shape and the way to share it out that an estimate says is the fastest
// Vs v24    the shape follows from the problem, not the problem's time from the shape: large tiles,
//           persistent and with a divided last wave, for what the tensor cores are busy with; small
//           ones, many on an SM, for what is over soon; up to eight blocks in a cluster, which load for
//           each other, along the lines, beside each other or both, where the L2 would be too slow
// Bound by  power; with few rows DRAM bandwidth; small problems latency
// Limits    compute capability 9.0; relies on ascending dispatch, as v25
// Tile      of the table below, in registers and shared memory as in v24 and v25
//
// The estimate, in nanoseconds. A block has so many K-tiles one after the other. Each takes what the tensor
// cores take, what the L2 takes to deliver its lines to all the SMs that load at a time, and what DRAM takes
// for its share of A and B, all at the same time, but not quite: the square root of the sum of squares. Rows
// of 128 bytes that do not begin at a multiple of 128 lie in two lines, and at an odd multiple of 16 in five
// sectors. Blocks that divide tiles in runs are at different K-tiles of what they share, some of which is
// read from DRAM again, and all of it comes from the L2 more slowly. Eight blocks that load for each other
// lose time together where they have several tiles. Tiles take a time for their beginnings and ends, divided
// ones for adding up, blocks that exchange sums for that, and v25's kernels, which have more to prepare,
// begin later. All of it runs beside DRAM writing C, in the same sense. tile_shapes.hpp has the terms. Where
// rows of A or B do not start at multiples of 16 bytes, it is either the same kernels with copies of them,
// as in v26, or v27's, or where K is short v27b's, or where A or B is small v27c's.
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
    StreamK<256, 160, true>,
    StreamK<192, 192, false>,
    StreamK<128, 256, false>,
    StreamK<128, 224, false>,
    StreamK<128, 224, true>,
    StreamK<128, 208, false>,
    StreamK<128, 192, false>,
    StreamK<128, 176, false>,
    StreamK<128, 160, true>,
    StreamK<128, 128, false>,
    StreamK<128, 96, true>,
    StreamK<64, 192, false>,
    StreamK<64, 144, false>,
    StreamK<64, 128, false>,
    StreamK<64, 96, false>,
    StreamK<64, 96, true>,
    StreamK<64, 80, false>,
    StreamK<128, 192, false, true>,
    StreamK<128, 192, true, true>,
    StreamK<128, 160, false, true>,
    StreamK<128, 128, false, true>,
    StreamK<128, 112, false, true>,
    PushedSums<16, 64, 2>,
    PushedSums<32, 64, 2>,
    PushedSums<64, 64, 2>,
    PushedSums<96, 64, 1>,
    PushedSums<128, 64, 1>,
    PushedSums<96, 128, 1>,
    PushedSums<128, 128, 1>>;
constexpr Gpu<29> kGpus[] = {
    {"NVIDIA H100 80GB HBM3",
     {680, 632, 537, 491, 492, 448, 425, 385, 357, 288, 237, 237, 212, 168, 138, 146, 132, 428, 422, 360, 279, 255, 91, 101, 137, 178, 182, 247, 292},
     {1640, 1022, 1119, 1078, 1119, 1074, 676, 612, 714, 533, 466, 551, 425, 336, 296, 353, 332, 1209, 1751, 992, 765, 693, 70, 92, 184, 303, 610, 891, 1165},
     2600, 1.345, 0.4766, 0.3224, 6.969, 1855, 396.9, 886.3, 0.08502, 0.08683, 0.04724, 0.3416},
    {"NVIDIA H200",
     {736, 662, 568, 506, 517, 459, 449, 395, 366, 293, 229, 232, 196, 169, 134, 141, 129, 444, 437, 365, 289, 257, 89, 101, 133, 171, 174, 229, 292},
     {1514, 830, 1007, 1021, 1102, 1259, 576, 491, 859, 529, 657, 696, 630, 397, 475, 566, 508, 1119, 1398, 1066, 738, 847, 151, 185, 282, 494, 751, 1192, 1374},
     3524, 1.099, 0.3073, 0.4755, 6.899, 1217, 355.4, 923.2, 0.04355, 0.09517, 0.06203, 0.2622},
};
// autotune:end
// clang-format on

using gemm_choice::Choice;

/// Of all shapes in all ways that a product has.
template <class Op, class T, class C, class... S>
std::vector<Choice> estimates(const gemm_tensor::Args<T, C>& g, Shapes<S...>) {
  const Gpu<Tiles::kCount>& gpu = ladder::entry_of_this_gpu(kGpus);
  const Sizes sizes = Sizes::of<Op>(g);
  const double unaligned = sizeof(C) == 2 && g.n % 8 > 0 ? sizes.m * sizes.n / sizes.sms : 0;
  std::vector<Choice> all;
  int shape = 0;
  auto consider = [&]<class Of>(Of) {
    const Pace pace{gpu.ns_of_k_tile[shape], gpu.ns_of_tile[shape]};
    const int of = shape++;
    if (pace.k_tile == 0) return;  // not measured there
    for (const Way& way : Of::template ways<Op>(g)) {
      if (way.clusters == 0) continue;
      const double ns = Of::template ns<Op, T, C>(sizes, way, pace, gpu.rates);
      all.push_back(
          {.shape = of,
           .way = way.number,
           .clusters = way.clusters,
           .divided = way.divided,
           .ns = std::hypot(ns, sizes.stores / gpu.rates.dram) + unaligned * Of::kUnaligned});
    }
  };
  (consider(S{}), ...);
  return all;
}

/// Calls use(shape, way) with the chosen ones.
template <class Use, class... S>
void with(const Choice& choice, Use use, Shapes<S...>) {
  int shape = 0;
  auto use_if_chosen = [&](auto one) {
    if (shape++ == choice.shape) use(one, Way{choice.way, choice.clusters, choice.divided});
  };
  (use_if_chosen(S{}), ...);
}

template <class... S>
std::size_t most_state(int m, int n, int k, Shapes<S...>) {
  return std::max({S::state(m, n, k)...});
}

}  // namespace

namespace gemm_choice {

using gemm_padded_rows::Copies;

template <class Op, class T, class C>
std::vector<Choice> choices_by_tma(const gemm_tensor::Args<T, C>& g, std::size_t most) {
  return ladder::fastest(estimates<Op>(g, Tiles{}), most);
}

template <class Op, class T, class C>
std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most) {
  const Copies<Op> copies(g.m, g.n, g.k);
  const bool aligned = copies.starts_aligned(g);
  std::vector<Choice> all;
  if (aligned) all = choices_by_tma<Op>(copies.pitched(g), most);
  if (aligned && !copies.any()) return all;

  for (Choice& copied : all) {
    copied.operands = Operands::are_copied;
    copied.ns += gemm_padded_rows::kCopyLaunch +
                 copies.template traffic<T>() / ladder::entry_of_this_gpu(kGpus).rates.dram;
  }
  for (const auto& [shape, parts, ns] : gemm_realigned::choices<Op>(g, most)) {
    all.push_back({.operands = Operands::are_realigned, .shape = shape, .way = parts, .ns = ns});
  }
  for (const auto& [shape, parts, ns] : gemm_realigned::choices_of_one<Op>(g, most)) {
    all.push_back({.operands = Operands::one_is_realigned, .shape = shape, .way = parts, .ns = ns});
  }
  if (g.k <= gemm_realigned::kShortK) {
    all.push_back(
        {.operands = Operands::are_realigned_at_once, .ns = gemm_realigned::ns_of_short_k<Op>(g)});
  }
  return ladder::fastest(all, all.size());
}

template <class Op, class T, class C>
std::size_t workspace(const gemm_tensor::Args<T, C>& g, const Choice& choice) {
  std::size_t bytes = 0;
  auto add = [&](auto shape, const auto& way) { bytes = shape.workspace(way); };
  switch (choice.operands) {
    case Operands::are_realigned:
    case Operands::are_realigned_at_once:
      return 0;
    case Operands::one_is_realigned:
      return gemm_realigned::workspace_of_one<Op>(g, {choice.shape, choice.way});
    case Operands::are_copied: {
      with(choice, add, Tiles{});
      return Copies<Op>(g.m, g.n, g.k).template bytes<T>() + bytes;
    }
    case Operands::tma_loads:
      with(choice, add, Tiles{});
  }
  return bytes;
}

std::size_t state(int m, int n, int k) { return most_state(m, n, k, Tiles{}); }

template <class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, void* state,
            cudaStream_t stream) {
  auto run_on = [&](const gemm_tensor::Args<T, C>& args) {
    auto run = [&](auto shape, const auto& way) {
      shape.template launch<Op>(args, way, state, stream);
    };
    with(choice, run, Tiles{});
  };
  switch (choice.operands) {
    case Operands::are_realigned:
      return gemm_realigned::launch<Op>(g, {choice.shape, choice.way}, stream);
    case Operands::are_realigned_at_once:
      return gemm_realigned::launch_short_k<Op>(g, stream);
    case Operands::one_is_realigned:
      return gemm_realigned::launch_one<Op>(g, {choice.shape, choice.way}, stream);
    case Operands::are_copied:
      return run_on(gemm_padded_rows::make_copies(Copies<Op>(g.m, g.n, g.k), g, stream));
    case Operands::tma_loads:
      return run_on(g);
  }
}

}  // namespace gemm_choice

namespace {

template <class Op>
struct Autotuned {
  static constexpr ladder::Version version{"the best shape of tile, by an estimate"};
  // As an H100 shares them out: v24's blocks, alone and eight to a tile; v25's pairs; copies of A and B. And
  // blocks with several tiles, each of an odd number of epilogue tiles
  static constexpr gemm_tensor::Problem test_problems[] = {
      {16, 16, 72},     {272, 16, 4112}, {16, 144, 4112}, {264, 520, 136},
      {1056, 2376, 24}, {515, 523, 321}, {600, 408, 64},  {600, 600, 64}};
  // v25's last band of tiles lower than the others
  static constexpr gemm_tensor::Problem many_sms_test_problems[] = {{5000, 600, 16}};

  template <class T, class C>
  static Choice plan(const gemm_tensor::Args<T, C>& g, bool) {
    if (gemm_k_tiles::is_empty(g)) return {};
    return gemm_choice::choices<Op>(g, 1).front();
  }
  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g, const Choice& choice) {
    return gemm_k_tiles::is_empty(g) ? 0 : gemm_choice::workspace<Op>(g, choice);
  }
  template <class T, class C>
  static std::size_t state(const gemm_tensor::Args<T, C>& g) {
    return gemm_choice::state(g.m, g.n, g.k);
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, void* state,
                     cudaStream_t stream) {
    if (gemm_k_tiles::launch_empty(g, stream)) return;
    gemm_choice::launch<Op>(g, choice, state, stream);
  }
};

const ladder::Register<Autotuned<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<Autotuned<gemm_tensor_nt>, gemm_tensor_nt, half, ladder::bfloat16> nt;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<Autotuned<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

#define LADDER_INSTANTIATE(Op, T, C)                                                              \
  template std::vector<Choice> gemm_choice::choices<Op>(const gemm_tensor::Args<T, C>&,           \
                                                        std::size_t);                             \
  template std::vector<Choice> gemm_choice::choices_by_tma<Op>(const gemm_tensor::Args<T, C>&,    \
                                                               std::size_t);                      \
  template std::size_t gemm_choice::workspace<Op>(const gemm_tensor::Args<T, C>&, const Choice&); \
  template void gemm_choice::launch<Op>(const gemm_tensor::Args<T, C>&, const Choice&, void*,     \
                                        cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE
