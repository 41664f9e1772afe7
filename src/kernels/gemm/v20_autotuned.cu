// Idea      a dispatcher: the fastest of the rungs before for each problem, by a table of what each
//           shape of tile reaches
// Vs v18    v15's splits and v18's cut tiles in one kernel (tiles.hpp), of several shapes; few rows
//           or columns go to v16's kernels (skinny.hpp). Shape and number of splits, or whether
//           tiles are cut, are those with the lowest estimate. Up to 512 rows or columns a thread
//           accumulates in runs of 384 steps, as cuBLAS splits K there and has smaller errors for
//           that
// Bound by  instruction issue; with few rows or columns DRAM bandwidth
// Limits    two launches must not overlap, as in v16
// Tile      of the table below, in registers and shared memory as in v14; of few rows or columns as
//           in v16. What a GPU has not enough shared memory for is not chosen
//
// The estimate, in cycles of an SM: the K-tiles of the blocks that the busiest SM gets, times the
// FMA cycles of a K-tile, over the speed that the table gives for so many blocks on an SM; and for
// partial sums their bytes through L2 and a second launch. Where rows of B do not start at
// multiples of 16 bytes, many rows of A are worth a copy of B whose rows do.
//
// scripts/autotune.py measures the speeds, and chooses the shapes among those of tile_shapes.hpp.
#include "device/gpu_name.hpp"
#include "last_wave.hpp"
#include "pack_rows.hpp"
#include "partial_sums.hpp"
#include "skinny.hpp"
#include "tile_shapes.hpp"

#include <cmath>

namespace {

/// What fraction of an SM's FMA rate a shape reaches with 1, 2, 3 or more blocks on it.
struct Speed {
  double of_blocks[3];
};
template <int kShapes>
struct Gpu {
  const char* name;
  Speed speeds[kShapes];  // in the order of Tiles
};

// clang-format off
// autotune:begin
using Tiles = Shapes<
    Shape<64, 128, 16, 32, 64, 3, 3, 0>,
    Shape<128, 256, 8, 64, 64, 4, 1, 0>,
    Shape<64, 64, 16, 32, 32, 4, 3, 24>,
    Shape<64, 128, 16, 32, 64, 3, 3, 24>>;
constexpr Gpu<4> kGpus[] = {
    {"NVIDIA H100 80GB HBM3", {{0.657, 0.730, 0.772}, {0.823, 0.823, 0.823}, {0.535, 0.574, 0.640}, {0.640, 0.725, 0.750}}},
};
// autotune:end
// clang-format on

constexpr int kKTileOverhead = 4;           // K-tiles' time before the first one and after the last
constexpr double kSumLaunch = 4000;         // cycles of a second launch
constexpr double kSumBytesPerCycle = 2000;  // of all SMs
constexpr int kMostSplits = 64;
constexpr int kLeastKTiles = 8;     // of a part of K
constexpr int kFewForRuns = 512;    // rows or columns, up to which sums are in runs
constexpr int kPackFromRows = 320;  // of A, from where on a copy of B takes less time than it saves

/// The tiles for a problem: which of Tiles, and how the sum over K is divided.
struct Tiling {
  int shape = 0, splits = 1;
  Plan plan{};
  double cycles = 1e300;
  std::size_t bytes = 0;  // of partial sums

  template <class... S>
  Tiling(Shapes<S...>, const gemm::Args<float>& g) {
    int number = 0;
    (consider<S>(number++, g), ...);
  }
  void take_if_faster(const Tiling& other) {
    if (other.cycles < cycles) *this = other;
  }
  template <class S>
  void consider(int number, const gemm::Args<float>& g) {
    if ((S::kRun > 0) != (min(g.m, g.n) <= kFewForRuns)) return;
    if (!ladder::needs_shared_memory(S::kShared).ok) return;
    const double sms = ladder::sm_count();
    const Speed* const speeds = ladder::entry_of_this_gpu(kGpus).speeds;
    const Plan whole = plan_of<S>(g);
    // Cycles of an SM for `blocks` blocks of `K-tiles` K-tiles each.
    auto multiply = [&](double blocks, double k_tiles) {
      const int together = static_cast<int>(min(max(blocks, 1.0), double{S::kBlocksPerSm}));
      const double rate = 128 * speeds[number].of_blocks[min(together, 3) - 1];
      return blocks * (k_tiles + kKTileOverhead) * S::BM * S::BN * S::BK / rate;
    };
    const int most = min(max(whole.k_tiles / kLeastKTiles, 1), kMostSplits);
    for (int parts = 1; parts <= most; ++parts) {
      const double blocks = std::ceil(static_cast<double>(whole.whole) * parts / sms);
      double estimate = multiply(blocks, ladder::ceil_div(whole.k_tiles, parts));
      if (parts > 1) {
        estimate += kSumLaunch + 4.0 * g.m * g.n * (2 * parts + 1) / kSumBytesPerCycle;
      }
      take_if_faster({number, parts, whole, estimate, partial_sums_bytes(g, parts)});
      if (blocks > S::kBlocksPerSm) break;  // the SMs have enough to do
    }
    const Plan cut = cut_last_wave<S>(g);
    if (cut.cut == 0) return;
    take_if_faster(
        {number, 1, cut,
         multiply(cut.whole / sms, cut.k_tiles) + multiply(S::kBlocksPerSm, cut.at) + kAdding,
         cut_bytes<S>(cut)});
  }

 private:
  Tiling(int number, int parts, const Plan& tiles, double estimate, std::size_t partials)
      : shape(number), splits(parts), plan(tiles), cycles(estimate), bytes(partials) {}
};

template <class... S>
void launch_tiling(Shapes<S...>, const Tiling& tiling, const gemm::Args<float>& g,
                   cudaStream_t stream) {
  int number = 0;
  ((number++ == tiling.shape ? launch_tiles<S>(g, tiling.plan, tiling.splits, stream) : void()),
   ...);
}

struct Autotuned {
  // A copy of B, no runs; on the host executor the last wave's tiles are cut
  static constexpr gemm::Problem test_problems[] = {{520, 530, 544}};
  static constexpr ladder::Version version{"the best of all, by a table"};

  static bool is_skinny(const gemm::Args<float>& g) {
    return (g.m <= kFew || g.n <= kFew) &&
           ladder::needs_shared_memory(skinny_shared_bytes(g.m, g.n)).ok;
  }
  static bool is_packed(const gemm::Args<float>& g) {
    return g.m >= kPackFromRows && !rows_aligned(g.b, g.n);
  }
  // The packed B, which keeps what follows it aligned, and then the partial sums.
  static std::size_t workspace(const gemm::Args<float>& g) {
    if (is_skinny(g)) return skinny_workspace(g);
    return Tiling(Tiles{}, g).bytes + (is_packed(g) ? packed_bytes(g) : 0);
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (is_skinny(g)) return launch_skinny(g, stream);
    Tiling tiling(Tiles{}, g);
    gemm::Args<float> args = g;
    if (is_packed(g)) {
      auto* const packed = static_cast<float*>(g.workspace);
      launch_pack_rows(g, packed, stream);
      args.b = packed;
      args.workspace = tiling.plan.partials = packed + packed_bytes(g) / sizeof(float);
      tiling.plan.b_pitch = packed_pitch(g);
    }
    launch_tiling(Tiles{}, tiling, args, stream);
    if (tiling.splits > 1) launch_add_up(args, tiling.splits, stream);
  }
};

const ladder::Register<Autotuned, gemm, float> registration;

}  // namespace
