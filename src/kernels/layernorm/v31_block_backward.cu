// Idea      a block per row makes dx and reduces its sums by shuffles; in a second launch a block
//           per 32 columns makes dweight and dbias, a warp per row and a lane per column
// Vs v30    256 threads work on a row or on 32 columns, and neighbours read neighbouring elements
// Bound by  DRAM bandwidth: 5n, for both launches read x and dy; where the columns are few, by the
//           latency of the second one, which has a block per 32 of them
// Limits    none
#include "device/row_team.hpp"
#include "kernels/row_norm/column_sums.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

/// What the second launch needs of a row: 1 / sqrt(variance + eps) is its scale.
template <class Norm, bool kCentred = Norm::kCentred>
struct RowFacts {
  float mean, scale;
};
template <class Norm>
struct RowFacts<Norm, false> {
  static constexpr float mean = 0;
  float scale;

  __device__ RowFacts(float, float of_row) : scale(of_row) {}
};

constexpr int kDxBlock = 256;

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
template <class Norm, class T>
__global__ void __launch_bounds__(kDxBlock)
    block_per_row(typename Norm::template Args<T> a, RowFacts<Norm>* facts) {
  using Team = ladder::BlockTeam<kDxBlock>;
  constexpr int kSums = row_norm::kSums<Norm>;
  __shared__ ladder::SumStorage<Team> of_sum, of_m2;
  __shared__ ladder::SumStorage<Team, kSums> of_sums;
  const std::int64_t start = Team::row() * a.cols;
  const T* const x = a.x + start;
  const T* const dy = a.dy + start;
  T* const dx = a.dx + start;

  float mean = 0;
  if constexpr (Norm::kCentred) {
    float sum = 0;
    for (int c = threadIdx.x; c < a.cols; c += kDxBlock) sum += static_cast<float>(x[c]);
    mean = ladder::team_sum<Team>(sum, of_sum) / a.cols;
  }
  float m2 = 0;  // the sum of squared deviations
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float distance = static_cast<float>(x[c]) - mean;
    m2 += distance * distance;
  }
  const float scale = rsqrtf(ladder::team_sum<Team>(m2, of_m2) / a.cols + a.epsilon);

  auto z = [&](int c) { return (static_cast<float>(x[c]) - mean) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float sums[kSums] = {};  // of g, if there is a mean, and of g * z
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    const float g_c = g(c);
    if constexpr (Norm::kCentred) sums[0] += g_c;
    sums[kSums - 1] += g_c * z(c);
  }
  Team::sum(sums, of_sums);
  const float mean_g = Norm::kCentred ? sums[0] / a.cols : 0, mean_gz = sums[kSums - 1] / a.cols;
  for (int c = threadIdx.x; c < a.cols; c += kDxBlock) {
    dx[c] = T((g(c) - mean_g - z(c) * mean_gz) * scale);
  }
  if (threadIdx.x == 0) facts[Team::row()] = {mean, scale};
}

constexpr int kColumns = 32, kRowsAtOnce = 8;

/// A lane per column, a warp per row of eight.
template <class Norm, class T>
__global__ void __launch_bounds__(kColumns* kRowsAtOnce)
    block_per_columns(typename Norm::template Args<T> a, const RowFacts<Norm>* facts) {
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
  if constexpr (Norm::kCentred) warp_dbias[warp][lane] = dbias;
  __syncthreads();
  if (warp > 0 || c >= a.cols) return;
  for (int w = 1; w < kRowsAtOnce; ++w) {
    dweight += warp_dweight[w][lane];
    if constexpr (Norm::kCentred) dbias += warp_dbias[w][lane];
  }
  a.dweight[c] = T(dweight);
  if constexpr (Norm::kCentred) a.dbias[c] = T(dbias);
}

}  // namespace

namespace row_norm {

template <class Norm, class T>
std::size_t workspace_of_block_backward(const typename Norm::template Args<T>& a) {
  return static_cast<std::size_t>(a.rows) * sizeof(RowFacts<Norm>);
}

template <class Norm, class T>
void launch_block_backward(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  auto* const facts = static_cast<RowFacts<Norm>*>(a.workspace);
  if (a.cols == 0) return;
  ladder::launch(block_per_row<Norm, T>, a.rows, kDxBlock, 0, stream, a, facts);
  ladder::launch(block_per_columns<Norm, T>, ladder::ceil_div(a.cols, kColumns),
                 kColumns * kRowsAtOnce, 0, stream, a, facts);
}

#define INSTANTIATE(Norm, T)                                                    \
  template std::size_t workspace_of_block_backward<Norm>(const Norm::Args<T>&); \
  template void launch_block_backward<Norm>(const Norm::Args<T>&, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, _backward)

}  // namespace row_norm

namespace {

struct BlockBackward {
  static constexpr ladder::Version version{"a block per row, then a block per 32 columns"};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return row_norm::workspace_of_block_backward<layernorm_backward>(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_block_backward<layernorm_backward>(a, stream);
  }
};

const ladder::Register<BlockBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
