// What v20 chooses from: shapes of tiles, the ways in which the blocks of each can share out a product,
// and what v20 estimates that takes.
#pragma once

#include "device/estimate.hpp"
#include "device/needs.hpp"
#include "pack_rows.hpp"
#include "tiles.hpp"

#include <optional>

namespace {

template <class... S>
struct Shapes {
  static constexpr int kCount = sizeof...(S);
};

/// Of a GPU: what the estimate of every shape takes.
struct Rates {
  double dram;        ///< bytes per ns
  double single;      ///< ns of 1024 floats of a K-tile of B that are copied one by one
  double push;        ///< ns in which the blocks of a cluster meet
  double pull;        ///< ns of 1024 sums that the blocks of a cluster add up
  double sum_launch;  ///< ns of the second launch that adds up partial sums
  double sum;         ///< bytes per ns of these
  double pack;        ///< ns of the launch that copies B
};

/// Of a GPU and a shape: ns of a K-tile where an SM has as many blocks as it can, for each of them;
/// ns of a K-tile at least, as long as a block takes that is alone; ns of a tile's beginning and end.
struct Pace {
  double k_tile, alone, tile;
};

/// How the tiles are shared out: K among the blocks of a cluster, in parts that a second launch adds
/// up, or both; or the last wave's tiles are cut.
struct Way {
  const char* name;
  int cluster = 1, splits = 1;
  bool cut = false;
};
constexpr Way kWays[] = {
    {"whole"},      {.name = "cut", .cut = true},
    {"c2", 2},      {"c4", 4},
    {"c8", 8},      {"s2", 1, 2},
    {"s3", 1, 3},   {"s4", 1, 4},
    {"s6", 1, 6},   {"s8", 1, 8},
    {"s12", 1, 12}, {"s16", 1, 16},
    {"c8s2", 8, 2}, {"c8s3", 8, 3},
    {"c8s4", 8, 4}, {"c8s6", 8, 6},
    {"c8s8", 8, 8}, {"c8s16", 8, 16},
};

/// Of the SMs that clusters of 4 and 8 fill evenly, on an H100: not all of its GPCs have a multiple.
constexpr double kClustered = 0.91;
constexpr int kFewForRuns = 512;       // rows or columns, up to which sums are short or in runs
constexpr int kLongWithoutRuns = 768;  // steps

/// SMs that clusters of that size fill evenly.
inline double sms_for(int cluster) { return ladder::sm_count() * (cluster > 2 ? kClustered : 1); }

/// Whether K is split in clusters, too.
template <class S>
bool has_clusters() {
  if constexpr (S::kClusters) {
    return ladder::is_compiled_for(tiles<S, V, true>, 90);
  }
  return false;
}

/// The plan of a way, if it is one for this product.
template <class S>
std::optional<Plan> plan_of_way(const gemm::Args<float>& g, const Way& way) {
  if (!ladder::needs_shared_memory(S::kShared).ok) return {};
  Plan plan = way.cut ? cut_last_wave<S>(g) : plan_of<S>(g);
  plan.cluster = way.cluster;
  plan.splits = way.splits;
  const int parts = way.cluster * way.splits;
  const bool few = min(g.m, g.n) <= kFewForRuns;
  if (S::kRun > 0 ? !few || S::kRun * parts >= plan.k_tiles
                  : few && g.k / parts > kLongWithoutRuns) {
    return {};
  }
  if (way.cut && (!S::kCuts || plan.cut == 0)) return {};
  if (parts == 1) return plan;
  const double blocks = static_cast<double>(plan.whole) * parts;
  const double slots = sms_for(way.cluster) * S::kBlocksPerSm;
  if (parts > plan.k_tiles || blocks > (way.cluster > 1 ? 1 : 2) * slots ||
      (way.cluster > 1 && !has_clusters<S>())) {
    return {};
  }
  return plan;
}

/// In ns; of the launches, what one takes longer than another.
template <class S>
double estimate(const gemm::Args<float>& g, const Plan& plan, const Pace& pace, const Rates& gpu) {
  const double single = plan.b_pitch % V == 0 ? 0 : gpu.single * S::BN * S::BK / 1024;
  // Of an SM's blocks, so many at a time.
  auto blocks = [&](double at_once, double k_tiles) {
    return k_tiles *
               ladder::at_the_same_time(pace.alone + single, at_once * (pace.k_tile + single)) +
           at_once * pace.tile;
  };
  const int most = S::kBlocksPerSm;
  double ns = 0;
  if (plan.cut > 0) {
    const double waves = plan.whole / (static_cast<double>(ladder::sm_count()) * most);
    ns = waves * blocks(most, plan.k_tiles) + blocks(most, plan.at);
  } else {
    const int parts = plan.cluster * plan.splits;
    const double all = std::ceil(static_cast<double>(plan.whole) * parts / sms_for(plan.cluster));
    const double k_tiles = std::ceil(static_cast<double>(plan.k_tiles) / parts);
    const double rest = std::fmod(all, most);
    ns = std::floor(all / most) * blocks(most, k_tiles) + (rest > 0 ? blocks(rest, k_tiles) : 0);
  }
  if (plan.cluster > 1) ns += gpu.push + gpu.pull * S::BM * S::BN / 1024;
  const double m = g.m, n = g.n, k = g.k;
  if (plan.splits > 1) ns += gpu.sum_launch + 4 * m * n * (2 * plan.splits + 1) / gpu.sum;
  return std::hypot(ns, 4 * (m * k + k * n + m * n) / gpu.dram);
}

/// What a copy of B takes.
inline double packing(const gemm::Args<float>& g, const Rates& gpu) {
  return gpu.pack + 8.0 * g.k * g.n / gpu.dram;
}

/// Multiplies as planned, with a copy of B or without, whose rows are aligned. The state is cut_state's.
template <class S>
void launch_planned(const gemm::Args<float>& g, Plan plan, bool packs, void* state,
                    cudaStream_t stream) {
  gemm::Args<float> args = g;
  if (packs) {
    auto* const packed = static_cast<float*>(g.workspace);
    launch_pack_rows(g, packed, stream);
    args.b = packed;
    args.workspace = packed + packed_bytes(g) / sizeof(float);
    plan.b_pitch = packed_pitch(g);
  }
  plan.partials = static_cast<float*>(args.workspace);
  launch_tiles<S>(args, plan, static_cast<unsigned*>(state), stream);
}

/// Bytes of workspace that it takes.
template <class S>
std::size_t planned_bytes(const gemm::Args<float>& g, const Plan& plan, bool packs) {
  return partial_sums_bytes(g, plan.splits) + cut_bytes<S>(plan) + (packs ? packed_bytes(g) : 0);
}

using Candidates =
    Shapes<Shape<128, 256, 8, 64, 64, 4, 1, 0>, Shape<64, 128, 16, 32, 64, 3, 3, 0>,
           Shape<128, 64, 16, 32, 64, 3, 3, 0>, Shape<64, 64, 16, 32, 32, 4, 3, 0>,
           Shape<32, 128, 16, 32, 32, 4, 4, 0>, Shape<128, 32, 16, 32, 32, 4, 4, 0>,
           Shape<32, 64, 16, 32, 32, 4, 6, 0>, Shape<32, 32, 32, 16, 32, 4, 6, 0>,
           // with runs
           Shape<64, 128, 16, 32, 64, 3, 3, 24>, Shape<128, 64, 16, 32, 64, 3, 3, 24>,
           Shape<32, 128, 16, 32, 32, 4, 4, 24>, Shape<128, 32, 16, 32, 32, 4, 4, 24>>;

}  // namespace
