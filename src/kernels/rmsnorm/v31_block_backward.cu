// Idea      a block per row makes dx and reduces its sums by shuffles; in a second launch a block
//           per 32 columns makes dweight, a warp per row and a lane per column
// Vs v30    256 threads work on a row or on 32 columns, and neighbours read neighbouring elements
// Bound by  DRAM bandwidth: 5n, for both launches read x and dy; where the columns are few, by the
//           latency of the second one, which has a block per 32 of them
// Limits    none
#include "device/row_team.hpp"
#include "launchers.hpp"

namespace {

constexpr int kDxBlock = 256;

/// scales: 1 / sqrt(mean of x^2 + eps) of every row, which the second launch needs
template <class T>
__global__ void __launch_bounds__(kDxBlock)
    block_per_row(rmsnorm_backward::Args<T> a, float* scales) {
  using Team = ladder::BlockTeam<kDxBlock>;
  __shared__ ladder::SumStorage<Team> of_sum_sq, of_sum_gz;
  const std::int64_t start = Team::row() * a.cols;
  const T* const x = a.x + start;
  const T* const dy = a.dy + start;
  T* const dx = a.dx + start;

  float sum_sq = 0;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float value = static_cast<float>(x[c]);
    sum_sq += value * value;
  }
  const float scale = rsqrtf(ladder::team_sum<Team>(sum_sq, of_sum_sq) / a.cols + a.epsilon);

  auto z = [&](int c) { return static_cast<float>(x[c]) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float sum_gz = 0;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) sum_gz += g(c) * z(c);
  const float mean_gz = ladder::team_sum<Team>(sum_gz, of_sum_gz) / a.cols;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) dx[c] = T((g(c) - z(c) * mean_gz) * scale);
  if (threadIdx.x == 0) scales[Team::row()] = scale;
}

constexpr int kColumns = 32, kRowsAtOnce = 8;

/// A lane per column, a warp per row of eight.
template <class T>
__global__ void __launch_bounds__(kColumns* kRowsAtOnce)
    block_per_columns(rmsnorm_backward::Args<T> a, const float* scales) {
  __shared__ float warp_dweight[kRowsAtOnce][kColumns];
  const int lane = threadIdx.x % kColumns, warp = threadIdx.x / kColumns;
  const int c = blockIdx.x * kColumns + lane;
  float dweight = 0;
  if (c < a.cols) {
#pragma unroll 4
    for (int row = warp; row < a.rows; row += kRowsAtOnce) {
      const float scale = scales[row];
      const float dy = static_cast<float>(a.dy[std::int64_t{row} * a.cols + c]);
      const float x = static_cast<float>(a.x[std::int64_t{row} * a.cols + c]);
      dweight += dy * (x * scale);
    }
  }
  warp_dweight[warp][lane] = dweight;
  __syncthreads();
  if (warp > 0 || c >= a.cols) return;
  for (int w = 1; w < kRowsAtOnce; ++w) dweight += warp_dweight[w][lane];
  a.dweight[c] = T(dweight);
}

}  // namespace

namespace rmsnorm_rows {

template <class T>
std::size_t workspace_of_block_backward(const rmsnorm_backward::Args<T>& a) {
  return static_cast<std::size_t>(a.rows) * sizeof(float);
}
template std::size_t workspace_of_block_backward(const rmsnorm_backward::Args<float>&);
template std::size_t workspace_of_block_backward(const rmsnorm_backward::Args<ladder::half>&);
template std::size_t workspace_of_block_backward(const rmsnorm_backward::Args<ladder::bfloat16>&);

template <class T>
void launch_block_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
  auto* const scales = static_cast<float*>(a.workspace);
  if (a.cols == 0) return;
  ladder::launch(block_per_row<T>, a.rows, kDxBlock, 0, stream, a, scales);
  ladder::launch(block_per_columns<T>, ladder::ceil_div(a.cols, kColumns), kColumns * kRowsAtOnce,
                 0, stream, a, scales);
}
template void launch_block_backward(const rmsnorm_backward::Args<float>&, cudaStream_t);
template void launch_block_backward(const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
template void launch_block_backward(const rmsnorm_backward::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace rmsnorm_rows

namespace {

struct BlockBackward {
  static constexpr ladder::Version version{"a block per row, then a block per 32 columns"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return rmsnorm_rows::workspace_of_block_backward(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    rmsnorm_rows::launch_block_backward(a, stream);
  }
};

const ladder::Register<BlockBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
