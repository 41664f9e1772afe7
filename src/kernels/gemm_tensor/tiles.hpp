// For persistent versions: the order of tiles, and the state of the pipeline.
#pragma once

#include "device/divisor.hpp"
#include "device/kernel.hpp"
#include "device/pipeline_state.hpp"

namespace gemm_k_tiles {

using ladder::PipelineState;

/// C in tiles, in the order in which they are taken: down the columns of a band of kBand rows of
/// tiles. Tiles that run at the same time form about a square, so that they share their operands in
/// the L2.
template <int kRows, int kCols, int kBand>
struct Tiles {
  Tiles(int m, int n)
      : rows(ladder::ceil_div(m, kRows)),
        cols(ladder::ceil_div(n, kCols)),
        of_band(kBand * cols),
        last_height(rows % kBand > 0 ? rows % kBand : kBand) {}

  __host__ __device__ int count() const { return rows * cols; }

  /// The first element of a tile: x column, y row.
  __device__ int2 at(int tile) const {
    const int first = of_band.quotient(tile) * kBand, within = tile - first * cols;
    const bool is_last = first + kBand >= rows;
    const int col = is_last ? last_height.quotient(within) : within / kBand;
    const int row = first + (is_last ? last_height.remainder(within) : within % kBand);
    return make_int2(col * kCols, row * kRows);
  }

  /// The fewest blocks that need as many waves as `most` blocks do.
  int blocks(int most) const { return ladder::ceil_div(count(), ladder::ceil_div(count(), most)); }

  int rows, cols;
  ladder::Divisor of_band, last_height;
};

}  // namespace gemm_k_tiles
