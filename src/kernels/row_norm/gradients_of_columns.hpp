// The second pass over rows that blocks have shared, of the backward kernels: what a row has in common
// is known, so each block takes some columns of all rows. It stores their dx, and keeps the sums over
// the rows, dweight and dbias, in registers; nobody else has these columns.
//
// Each warp of a block has 32 vectors. Where the columns are so few that this would not fill the GPU, 2
// or 4 warps share the rows of theirs, and add up in the end, in the warps' order.
#pragma once

#include "device/floats.hpp"
#include "device/row_length.hpp"
#include "device/sm_count.hpp"
#include "kernels/row_norm/column_sums.hpp"

namespace row_norm {

/// What the gradients of a row have in common: with z = (x - mean) * scale,
///   dx = g * scale - (z * z_factor + subtracted)
struct alignas(16) RowFactors {
  float mean, scale, z_factor, subtracted;
};

constexpr int kColumnsBlock = 128;  // threads
constexpr int kColumnsWarps = kColumnsBlock / 32;
constexpr int kColumnsBlocksOfSm = 5;  // at least
constexpr int kRowsInFlight = 4;       // of a thread

/// sharing: the warps that have the same vectors.
template <class Norm, class T, class Vec>
__global__ void __launch_bounds__(kColumnsBlock, kColumnsBlocksOfSm)
    gradients_of_columns(typename Norm::template Args<T> a, const RowFactors* of_rows,
                         int sharing) {
  constexpr int kOfColumn = kSums<Norm>, kRows = kRowsInFlight;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp % sharing;
  // The last columns and rows first: what was read last is still in the L2.
  const std::int64_t block = gridDim.x - 1 - blockIdx.x;
  const std::int64_t v = (block * (kColumnsWarps / sharing) + warp / sharing) * 32 + lane;
  const bool exists = v < a.cols / Vec::size;
  const std::int64_t column = v * Vec::size;

  float sums[kOfColumn][Vec::size] = {};
  if (exists) {
    const Vec weight = Vec::load(a.weight + column);
    for (int end = a.rows - share * kRows; end > 0; end -= sharing * kRows) {
      Vec x[kRows], dy[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= end) break;
        const std::int64_t at = std::int64_t{end - 1 - r} * a.cols + column;
        x[r] = Vec::load_streaming(a.x + at);
        dy[r] = Vec::load_streaming(a.dy + at);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= end) break;
        const int row = end - 1 - r;
        const RowFactors f = of_rows[row];
        const ladder::Floats<Vec> x_vec(x[r]), dy_vec(dy[r]), weight_vec(weight);
        Vec dx;
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) {
          const float z = (x_vec[e] - f.mean) * f.scale;
          const float g = dy_vec[e] * weight_vec[e];
          dx[e] = T(g * f.scale - (z * f.z_factor + f.subtracted));
          sums[0][e] += dy_vec[e] * z;
          if constexpr (Norm::kCentred) sums[1][e] += dy_vec[e];
        }
        dx.store_streaming(a.dx + std::int64_t{row} * a.cols + column);
      }
    }
  }

  if (sharing > 1) {
    __shared__ float of_shares[kOfColumn][Vec::size][kColumnsWarps][32];
#pragma unroll
    for (int i = 0; i < kOfColumn * Vec::size; ++i) {
      of_shares[i / Vec::size][i % Vec::size][warp][lane] = sums[i / Vec::size][i % Vec::size];
    }
    __syncthreads();
    if (share == 0) {
#pragma unroll
      for (int i = 0; i < kOfColumn * Vec::size; ++i) {
        for (int other = 1; other < sharing; ++other) {
          sums[i / Vec::size][i % Vec::size] +=
              of_shares[i / Vec::size][i % Vec::size][warp + other][lane];
        }
      }
    }
  }
  if (!exists || share > 0) return;
#pragma unroll
  for (int i = 0; i < kOfColumn; ++i) {
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = T(sums[i][e]);
    if constexpr (Norm::kCentred) {
      out.store_whole((i == 0 ? a.dweight : a.dbias) + column);
    } else {
      out.store_whole(a.dweight + column);
    }
  }
}

template <class Norm, class T>
void launch_gradients_of_columns(const typename Norm::template Args<T>& a,
                                 const RowFactors* of_rows, cudaStream_t stream) {
  auto with = [&]<class Vec>(Vec) {
    const int needed = ladder::ceil_div(a.cols / Vec::size, 32);  // warps
    const int at_once = ladder::sm_count() * kColumnsBlocksOfSm * kColumnsWarps;
    int sharing = 1;
    while (sharing < kColumnsWarps && sharing * kRowsInFlight < a.rows &&
           2 * sharing * std::int64_t{needed} <= at_once) {
      sharing *= 2;
    }
    ladder::launch(gradients_of_columns<Norm, T, Vec>,
                   ladder::ceil_div(needed, kColumnsWarps / sharing), kColumnsBlock, 0, stream, a,
                   of_rows, sharing);
  };
  a.cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

}  // namespace row_norm
