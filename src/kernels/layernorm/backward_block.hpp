// Backward kernels of LayerNorm and RMSNorm for rows of any length: a block per row makes dx, a
// block per 32 columns dweight and dbias. Norm is layernorm_backward or rmsnorm_backward.
#pragma once

#include "backward_naive.hpp"
#include "device/row_team.hpp"

namespace layernorm_rows {

constexpr int kDxBlock = 256;

template <class Norm, class T>
__global__ void __launch_bounds__(kDxBlock)
    block_per_row(typename Norm::template Args<T> a, RowFacts* facts) {
  using Team = ladder::BlockTeam<kDxBlock>;
  const std::int64_t start = Team::row() * a.cols;
  const T* const x = a.x + start;
  const T* const dy = a.dy + start;
  T* const dx = a.dx + start;

  float mean = 0, squares = 0;
  if constexpr (Norm::kCentred) {
    float sum = 0;
    for (int c = threadIdx.x; c < a.cols; c += kDxBlock) sum += static_cast<float>(x[c]);
    mean = ladder::team_sum<Team, 0>(sum) / a.cols;
  }
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float distance = static_cast<float>(x[c]) - mean;
    squares += distance * distance;
  }
  const float scale = rsqrtf(ladder::team_sum<Team, 1>(squares) / a.cols + Norm::kEpsilon);

  auto z = [&](int c) { return (static_cast<float>(x[c]) - mean) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float sums[] = {0, 0};  // of g, of g * z
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float of_c = g(c);
    if constexpr (Norm::kCentred) sums[0] += of_c;
    sums[1] += of_c * z(c);
  }
  Team::sum<2>(sums);
  const float of_g = sums[0] / a.cols, of_gz = sums[1] / a.cols;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    dx[c] = T((g(c) - of_g - z(c) * of_gz) * scale);
  }
  if (threadIdx.x == 0) facts[Team::row()] = {mean, scale};
}

constexpr int kColumns = 32, kRowsAtOnce = 8;

/// A lane per column, a warp per row of eight.
template <class Norm, class T>
__global__ void __launch_bounds__(kColumns* kRowsAtOnce)
    block_per_columns(typename Norm::template Args<T> a, const RowFacts* facts) {
  __shared__ float dweight_of[kRowsAtOnce][kColumns], dbias_of[kRowsAtOnce][kColumns];
  const int lane = threadIdx.x % kColumns, warp = threadIdx.x / kColumns;
  const int c = blockIdx.x * kColumns + lane;
  float dweight = 0, dbias = 0;
  if (c < a.cols) {
#pragma unroll 4
    for (int row = warp; row < a.rows; row += kRowsAtOnce) {
      const float mean = facts[row].mean;
      const float scale = facts[row].scale;
      const float dy = static_cast<float>(a.dy[std::int64_t{row} * a.cols + c]);
      const float x = static_cast<float>(a.x[std::int64_t{row} * a.cols + c]);
      dweight += dy * ((x - mean) * scale);
      dbias += dy;
    }
  }
  dweight_of[warp][lane] = dweight;
  dbias_of[warp][lane] = dbias;
  __syncthreads();
  if (warp > 0 || c >= a.cols) return;
  for (int w = 1; w < kRowsAtOnce; ++w) {
    dweight += dweight_of[w][lane];
    dbias += dbias_of[w][lane];
  }
  a.dweight[c] = T(dweight);
  if constexpr (Norm::kCentred) a.dbias[c] = T(dbias);
}

template <class Norm, class T>
std::size_t workspace_of_two_kernels(const typename Norm::template Args<T>& a) {
  return static_cast<std::size_t>(a.rows) * sizeof(RowFacts);
}

template <class Norm, class T>
void launch_two_kernels(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  auto* const facts = static_cast<RowFacts*>(a.workspace);
  if (a.cols == 0) return;
  ladder::launch(block_per_row<Norm, T>, a.rows, kDxBlock, 0, stream, a, facts);
  ladder::launch(block_per_columns<Norm, T>, ladder::ceil_div(a.cols, kColumns),
                 kColumns * kRowsAtOnce, 0, stream, a, facts);
}

}  // namespace layernorm_rows
