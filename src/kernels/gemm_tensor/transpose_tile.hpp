// Transposes operands that lie across K, for types that wgmma reads along K only.
#pragma once

#include "gemm_tensor.hpp"

namespace gemm_k_tiles {

constexpr int kTransposeTile = 32,
              kTransposeRows = 8;  // a tile, and its rows that a block moves at a time
constexpr int kTransposeThreads = kTransposeTile * kTransposeRows;

/// The grid for a matrix that is [rows][columns] when it is transposed.
inline dim3 tiles_to_transpose(int rows, int columns) {
  return dim3(ladder::ceil_div(rows, kTransposeTile), ladder::ceil_div(columns, kTransposeTile));
}
inline ladder::Support supports_transposing(const gemm_tensor::Problem& p) {
  return p.k <= kTransposeTile * 65535 ? ladder::supported()
                                       : ladder::unsupported("K over 2097120");
}

/// The tile, in shared memory; columns in 32 banks, too.
using TransposeTile = float[kTransposeTile][kTransposeTile + 1];

/// Calls store(row, column, element) for a tile of a matrix that lies in memory as
/// [columns][rows]; lanes have neighbouring columns.
template <class Store>
__device__ __forceinline__ void transpose_tile(TransposeTile& tile, const float* matrix, int rows,
                                               int columns, Store&& store) {
  const int x = threadIdx.x % kTransposeTile, y = threadIdx.x / kTransposeTile;
  const int row0 = blockIdx.x * kTransposeTile, column0 = blockIdx.y * kTransposeTile;
#pragma unroll
  for (int i = y; i < kTransposeTile; i += kTransposeRows) {
    if (column0 + i < columns && row0 + x < rows) {
      tile[i][x] = __ldcs(&matrix[std::int64_t{column0 + i} * rows + row0 + x]);
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = y; i < kTransposeTile; i += kTransposeRows) {
    if (row0 + i < rows && column0 + x < columns) store(row0 + i, column0 + x, tile[x][i]);
  }
}

}  // namespace gemm_k_tiles
