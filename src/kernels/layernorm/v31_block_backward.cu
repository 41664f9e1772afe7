// Idea      a block per row makes dx and reduces its sums by shuffles; in a second launch a block
//           per 32 columns makes dweight and dbias, a warp per row and a lane per column
// Vs v30    256 threads work on a row or on 32 columns, and neighbours read neighbouring elements
// Bound by  DRAM bandwidth: 5n, for both launches read x and dy; where the columns are few, by the
//           latency of the second one, which has a block per 32 of them
// Limits    none
#include "device/row_team.hpp"
#include "launchers.hpp"

namespace {

/// What the second launch needs of a row: 1 / sqrt(variance + eps) is its scale.
struct RowFacts {
  float mean, scale;
};

constexpr int kDxBlock = 256;

template <class T>
__global__ void __launch_bounds__(kDxBlock)
    block_per_row(layernorm_backward::Args<T> a, RowFacts* facts) {
  using Team = ladder::BlockTeam<kDxBlock>;
  __shared__ ladder::SumStorage<Team> of_sum, of_m2;
  __shared__ ladder::SumStorage<Team, 2> of_sums;
  const std::int64_t start = Team::row() * a.cols;
  const T* const x = a.x + start;
  const T* const dy = a.dy + start;
  T* const dx = a.dx + start;

  float sum = 0, m2 = 0;  // m2: the sum of squared deviations
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) sum += static_cast<float>(x[c]);
  const float mean = ladder::team_sum<Team>(sum, of_sum) / a.cols;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float distance = static_cast<float>(x[c]) - mean;
    m2 += distance * distance;
  }
  const float scale = rsqrtf(ladder::team_sum<Team>(m2, of_m2) / a.cols + a.epsilon);

  auto z = [&](int c) { return (static_cast<float>(x[c]) - mean) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float sums[] = {0, 0};  // of g, of g * z
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float g_c = g(c);
    sums[0] += g_c;
    sums[1] += g_c * z(c);
  }
  Team::sum(sums, of_sums);
  const float mean_g = sums[0] / a.cols, mean_gz = sums[1] / a.cols;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    dx[c] = T((g(c) - mean_g - z(c) * mean_gz) * scale);
  }
  if (threadIdx.x == 0) facts[Team::row()] = {mean, scale};
}

constexpr int kColumns = 32, kRowsAtOnce = 8;

/// A lane per column, a warp per row of eight.
template <class T>
__global__ void __launch_bounds__(kColumns* kRowsAtOnce)
    block_per_columns(layernorm_backward::Args<T> a, const RowFacts* facts) {
  __shared__ float warp_dweight[kRowsAtOnce][kColumns], warp_dbias[kRowsAtOnce][kColumns];
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
  warp_dweight[warp][lane] = dweight;
  warp_dbias[warp][lane] = dbias;
  __syncthreads();
  if (warp > 0 || c >= a.cols) return;
  for (int w = 1; w < kRowsAtOnce; ++w) {
    dweight += warp_dweight[w][lane];
    dbias += warp_dbias[w][lane];
  }
  a.dweight[c] = T(dweight);
  a.dbias[c] = T(dbias);
}

}  // namespace

namespace layernorm_rows {

template <class T>
std::size_t workspace_of_block_backward(const layernorm_backward::Args<T>& a) {
  return static_cast<std::size_t>(a.rows) * sizeof(RowFacts);
}
template std::size_t workspace_of_block_backward(const layernorm_backward::Args<float>&);
template std::size_t workspace_of_block_backward(const layernorm_backward::Args<ladder::half>&);
template std::size_t workspace_of_block_backward(const layernorm_backward::Args<ladder::bfloat16>&);

template <class T>
void launch_block_backward(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
  auto* const facts = static_cast<RowFacts*>(a.workspace);
  if (a.cols == 0) return;
  ladder::launch(block_per_row<T>, a.rows, kDxBlock, 0, stream, a, facts);
  ladder::launch(block_per_columns<T>, ladder::ceil_div(a.cols, kColumns), kColumns * kRowsAtOnce,
                 0, stream, a, facts);
}
template void launch_block_backward(const layernorm_backward::Args<float>&, cudaStream_t);
template void launch_block_backward(const layernorm_backward::Args<ladder::half>&, cudaStream_t);
template void launch_block_backward(const layernorm_backward::Args<ladder::bfloat16>&,
                                    cudaStream_t);

}  // namespace layernorm_rows

namespace {

struct BlockBackward {
  static constexpr ladder::Version version{"a block per row, then a block per 32 columns"};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return layernorm_rows::workspace_of_block_backward(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_block_backward(a, stream);
  }
};

const ladder::Register<BlockBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
