// Idea      the whole GPU on a row, as v13 has it: the parts of the rows are read by as many blocks as
//           run at once, for two sums, of x * x and of g * x; then each block takes some columns of all
//           rows, reads them again, stores dx, and has dweight in registers
// Vs v35    rows that no cluster holds, of which v31 has one in a block: a row of 128 MiB kept one SM
//           busy, of 132
// Bound by  DRAM bandwidth, of 5n less what the L2 keeps: x and dy are read twice, so that large
//           matrices reach at most 60 % of the roof, which counts 3n
// Limits    at most 16384 rows; x, dy and dx start at multiples of 16 bytes. Where the columns are no
//           multiple of the vector, the second pass moves single elements, as v32 does. No two launches
//           may overlap
// Tile      256 threads with 32 bytes each of x and dy in flight: device/split_rows.hpp; then a vector
//           of 4 rows each: row_norm/gradients_of_columns.hpp
//
// The order of the additions depends on the number of SMs only: the same bits in every run.
#include "device/floats.hpp"
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/gradients_of_columns.hpp"
#include "launchers.hpp"

namespace rmsnorm_rows {

static __device__ unsigned parts_done[ladder::kMostSplitRows];

/// Of some elements: the sums of x * x and of g * x.
struct alignas(8) GradientSums {
  float xx = 0, gx = 0;
};

template <bool kAligned, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    factors_of_split_rows(rmsnorm_backward::Args<T> a, ladder::SplitPlan plan,
                          row_norm::RowFactors* of_rows) {
  using Vec = ladder::Vec128<T>;
  using Floats = ladder::Floats<Vec>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads / 2;
  using Team = ladder::BlockTeam<kBlock>;
  __shared__ ladder::SumStorage<Team, 2> of_part, of_merge;
  const ladder::SplitPart<T> part(plan, a.cols);

  float sums[] = {0, 0};
  auto add = [&](float x, float dy, float weight) {
    sums[0] += x * x;
    sums[1] += dy * weight * x;
  };
  part.template for_each<false, kLoads>([&](int left, std::int64_t at) {
    Vec x[kLoads], dy[kLoads], weight[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock >= left) break;
      const std::int64_t here = at + i * kBlock * Vec::size;
      x[i] = Vec::load(a.x + here);
      dy[i] = Vec::load(a.dy + here);
      weight[i] =
          ladder::load_anywhere<kAligned>(a.weight, static_cast<int>(here - part.start), a.cols);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock >= left) break;
      const Floats x_vec(x[i]), dy_vec(dy[i]), weight_vec(weight[i]);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) add(x_vec[e], dy_vec[e], weight_vec[e]);
    }
  });
  const std::int64_t single = part.single(threadIdx.x);
  if (single >= 0) {
    add(static_cast<float>(a.x[single]), static_cast<float>(a.dy[single]),
        static_cast<float>(a.weight[single - part.start]));
  }
  Team::sum(sums, of_part);

  ladder::merge_parts(
      plan, parts_done, part, GradientSums{sums[0], sums[1]},
      [&](const GradientSums* of_parts, int parts) {
        float merged[] = {0, 0};
        for (int i = threadIdx.x; i < parts; i += kBlock) {
          const GradientSums one = of_parts[i];  // a vector
          merged[0] += one.xx;
          merged[1] += one.gx;
        }
        Team::sum(merged, of_merge);
        return GradientSums{merged[0], merged[1]};
      },
      [&](const GradientSums& total) {
        const float scale = rsqrtf(total.xx / a.cols + a.epsilon);
        const float mean_gz = total.gx / a.cols * scale;
        const row_norm::RowFactors factors{0, scale, mean_gz * scale, 0};
        of_rows[part.row] = factors;  // a vector
      });
}

namespace {

struct SplitRowsBackward {
  static constexpr ladder::Version version{"the whole GPU on a row, then blocks on columns"};
  // Rows that warps share, and that one warp has; parts with single elements.
  static constexpr rmsnorm::Problem test_problems[] = {{40, 9001}, {70, 520}, {3, 100'000}};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return workspace_of_split_rows_backward(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    launch_split_rows_backward(a, stream);
  }
  static ladder::Support supports(const rmsnorm::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

const ladder::Register<SplitRowsBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

template <class T>
std::size_t workspace_of_split_rows_backward(const rmsnorm_backward::Args<T>& a) {
  return ladder::workspace_of_split<GradientSums>(
             ladder::plan_split<T>(a.rows, a.cols, 2, nullptr)) +
         a.rows * sizeof(row_norm::RowFactors);
}
template std::size_t workspace_of_split_rows_backward(const rmsnorm_backward::Args<float>&);
template std::size_t workspace_of_split_rows_backward(const rmsnorm_backward::Args<ladder::half>&);
template std::size_t workspace_of_split_rows_backward(
    const rmsnorm_backward::Args<ladder::bfloat16>&);

template <class T>
void launch_split_rows_backward(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  auto* const of_rows = static_cast<row_norm::RowFactors*>(a.workspace);
  auto plan = ladder::plan_split<T>(a.rows, a.cols, 2, of_rows + a.rows);
  plan.ahead = a.rows;  // all of the first passes
  auto* const kernel = a.cols % ladder::Vec128<T>::size == 0 ? factors_of_split_rows<true, T>
                                                             : factors_of_split_rows<false, T>;
  ladder::launch(kernel, plan.rows * plan.parts, ladder::kSplitBlock, 0, stream, a, plan, of_rows);
  row_norm::launch_gradients_of_columns<rmsnorm_backward, T>(a, of_rows, stream);
}
template void launch_split_rows_backward(const rmsnorm_backward::Args<float>&, cudaStream_t);
template void launch_split_rows_backward(const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
template void launch_split_rows_backward(const rmsnorm_backward::Args<ladder::bfloat16>&,
                                         cudaStream_t);

}  // namespace rmsnorm_rows
