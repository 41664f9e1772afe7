// Which tiles v18 and v20 cut, and where: those of the last wave, if it would leave SMs without
// one.
#pragma once

#include "device/sm_count.hpp"
#include "gemm.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace {

/// What each block computes. Blocks b < whole have a tile each; after them come a block for the
/// beginning of each of the tiles that are cut, and one for the end of each. Or, in v20, no tile is
/// cut and K is split: into `splits` parts, which a second kernel adds up, and each of these among
/// the blocks of a cluster.
struct Plan {
  int columns, k_tiles;  // of tiles; of a tile
  int whole, cut;        // tiles
  int at;                // K-tiles of a beginning
  int b_pitch;           // floats from one row of B to the next; in v18 N
  int splits, cluster;
  float* partials;  // of parts [splits][M][N], or of cut tiles [cut][2][BM * BN]
};

constexpr int kMostCut = 1024;  // tiles

template <class S>
std::int64_t tiles_of(const gemm::Args<float>& g) {
  return std::int64_t{ladder::ceil_div(g.n, S::BN)} * ladder::ceil_div(g.m, S::BM);
}

/// Whole tiles, nothing cut.
template <class S>
Plan plan_of(const gemm::Args<float>& g) {
  return {.columns = ladder::ceil_div(g.n, S::BN),
          .k_tiles = ladder::ceil_div(g.k, S::BK),
          .whole = static_cast<int>(tiles_of<S>(g)),
          .cut = 0,
          .at = 0,
          .b_pitch = g.n,
          .splits = 1,
          .cluster = 1,
          .partials = static_cast<float*>(g.workspace)};
}

constexpr double kEndStart = 5000;  // cycles that a block for an end takes besides its K-tiles
constexpr double kAdding = 12000;   // cycles until partial sums are written, read and added

/// Cycles of a K-tile, where an SM has as many blocks as it can.
template <class S>
constexpr double k_tile_cycles() {
  return S::BM * S::BN * S::BK * S::kBlocksPerSm / 128.0;
}

/// K-tiles of a beginning that lasts as long as the ends that one block slot takes, if that saves more than
/// adding the partial sums costs.
template <class S>
std::optional<int> beginning(int k_tiles, double ends) {
  const double k_tile = k_tile_cycles<S>();
  const double at = std::ceil(ends / (ends + 1) * (k_tiles + kEndStart / k_tile));
  if (at + kAdding / k_tile >= k_tiles) return {};
  return static_cast<int>(at);
}

/// Each block slot that the last wave leaves free takes ends.
template <class S>
Plan cut_last_wave(const gemm::Args<float>& g) {
  Plan plan = plan_of<S>(g);
  const int slots = ladder::sm_count() * S::kBlocksPerSm, rest = plan.whole % slots;
  if (rest == 0 || rest > kMostCut) return plan;
  const double ends = ladder::ceil_div(rest, slots - rest);
  if (const auto at = beginning<S>(plan.k_tiles, ends)) {
    plan.at = *at;
    plan.cut = rest;
    plan.whole -= rest;
  }
  return plan;
}

/// Bytes of the partial sums of cut tiles.
template <class S>
std::size_t cut_bytes(const Plan& plan) {
  return std::size_t{2} * static_cast<std::size_t>(plan.cut) * S::BM * S::BN * sizeof(float);
}

/// Bytes of state: a count of blocks for each tile that is cut, of as many as any number of SMs leaves over.
template <class S>
std::size_t cut_state(const gemm::Args<float>& g) {
  if (!beginning<S>(ladder::ceil_div(g.k, S::BK), 1)) return 0;
  const std::int64_t most = std::min(tiles_of<S>(g), std::int64_t{kMostCut});
  return static_cast<std::size_t>(most) * sizeof(unsigned);
}

}  // namespace
