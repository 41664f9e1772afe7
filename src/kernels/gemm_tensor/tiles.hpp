// For versions with a block per SM: which tile comes when, and where in the ring of K-tiles a
// thread is.
#pragma once

#include "device/kernel.hpp"

namespace gemm_k_tiles {

/// C in tiles, in the order in which they are taken: down the columns of a band of kBand rows of
/// tiles. Tiles in work at the same time make up something like a square, and share in the L2 what
/// they load.
template <int kRows, int kCols, int kBand>
struct Tiles {
  Tiles(int m, int n) : rows(ladder::ceil_div(m, kRows)), cols(ladder::ceil_div(n, kCols)) {}

  __host__ __device__ int count() const { return rows * cols; }

  /// The first element of a tile: x column, y row.
  __device__ int2 at(int tile) const {
    const int first = tile / (kBand * cols) * kBand, within = tile - first * cols;
    const int height = min(kBand, rows - first);
    return make_int2(within / height * kCols, (first + within % height) * kRows);
  }

  /// No more blocks than it takes to be done in as many turns as with `most` of them.
  int blocks(int most) const { return ladder::ceil_div(count(), ladder::ceil_div(count(), most)); }

  int rows, cols;
};

/// The place in a ring of K-tiles, and the parity of the round: 0 in the first one.
template <int kStages>
struct PipelineState {
  int stage = 0;
  unsigned parity = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

}  // namespace gemm_k_tiles
