// Idea      the whole GPU on a row: its parts are read by as many blocks as run at once, whose sums
//           of squares the last one adds up; then as many blocks read the parts
//           again, from the L2 cache as far as it keeps them, and store the results
// Vs v12    rows that no cluster holds, or that are fewer than the GPU has clusters for: one row kept
//           a cluster's 8 SMs busy, of 132
// Bound by  DRAM bandwidth; where a row is larger than the L2, by what is read twice
// Limits    at most 16384 rows; x and y start at multiples of 16 bytes. No two launches may overlap
// Tile      256 threads with 64 bytes each in flight; parts of 16 KiB and more: device/split_rows.hpp
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/split_rows.hpp"
#include "launchers.hpp"

namespace rmsnorm_rows {

static __device__ ladder::SplitCounters split_counters;

template <bool kAligned, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    split_rows(rmsnorm::Args<T> a, ladder::SplitPlan plan) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads;
  using Team = ladder::BlockTeam<kBlock>;
  const ladder::SplitPart<T> part(plan, a.cols);
  const std::int64_t single = part.single(threadIdx.x);

  if (part.is_first_pass) {
    __shared__ ladder::SumStorage<Team> of_sum, of_merge;
    float sum_sq = 0;
    part.template for_each<false>([&](int left, std::int64_t at) {
      Vec v[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) v[i][e] = T(0.0f);
        if (i * kBlock < left) v[i] = Vec::load(a.x + at + i * kBlock * Vec::size);
      }
#pragma unroll
      for (int i = 0; i < kLoads * Vec::size; ++i) {
        const float value = static_cast<float>(v[i / Vec::size][i % Vec::size]);
        sum_sq += value * value;
      }
    });
    if (single >= 0) {
      const float value = static_cast<float>(a.x[single]);
      sum_sq += value * value;
    }
    sum_sq = ladder::team_sum<Team>(sum_sq, of_sum);
    ladder::publish(plan, split_counters, part, sum_sq, [&](const float* of_parts, int parts) {
      float mine = 0;
      for (int i = threadIdx.x; i < parts; i += kBlock) mine += of_parts[i];
      return ladder::team_sum<Team>(mine, of_merge);
    });
    return;
  }

  const float sum_sq = ladder::await_total<float>(plan, split_counters, part);
  const float scale = rsqrtf(sum_sq / a.cols + a.epsilon);
  auto result = [&](T value, T weight) {
    return T(static_cast<float>(value) * scale * static_cast<float>(weight));
  };
  // From the back: what was read last is still in the L2.
  part.template for_each<true>([&](int left, std::int64_t at) {
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock < left) v[i] = Vec::load_streaming(a.x + at + i * kBlock * Vec::size);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock >= left) break;
      const auto column = static_cast<int>(at + i * kBlock * Vec::size - part.start);
      const Vec weight = ladder::load_anywhere<kAligned>(a.weight, column, a.cols);
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(v[i][e], weight[e]);
      out.store_streaming(a.y + at + i * kBlock * Vec::size);
    }
  });
  if (single >= 0) {
    const auto column = static_cast<int>(single - part.start);
    a.y[single] = result(a.x[single], a.weight[column]);
  }
}

template <class T>
std::size_t workspace_of_split_rows(const rmsnorm::Args<T>& a) {
  return ladder::workspace_of_split<float>(ladder::plan_split<T>(a.rows, a.cols, 1, nullptr));
}
template std::size_t workspace_of_split_rows(const rmsnorm::Args<float>&);
template std::size_t workspace_of_split_rows(const rmsnorm::Args<ladder::half>&);
template std::size_t workspace_of_split_rows(const rmsnorm::Args<ladder::bfloat16>&);

template <class T>
void launch_split_rows(const rmsnorm::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  const auto plan = ladder::plan_split<T>(a.rows, a.cols, 1, a.workspace);
  auto* const kernel =
      a.cols % ladder::Vec128<T>::size == 0 ? split_rows<true, T> : split_rows<false, T>;
  ladder::launch(kernel, plan.blocks(), ladder::kSplitBlock, 0, stream, a, plan);
}
template void launch_split_rows(const rmsnorm::Args<float>&, cudaStream_t);
template void launch_split_rows(const rmsnorm::Args<ladder::half>&, cudaStream_t);
template void launch_split_rows(const rmsnorm::Args<ladder::bfloat16>&, cudaStream_t);

namespace {

struct SplitRows {
  static constexpr ladder::Version version{"the whole GPU on a row, whose parts are read twice"};
  // More rows than are ahead; parts with single elements.
  static constexpr rmsnorm::Problem test_problems[] = {{40, 9001}, {3, 50'001}, {1, 200'000}};

  template <class T>
  static std::size_t workspace(const rmsnorm::Args<T>& a) {
    return workspace_of_split_rows(a);
  }
  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    launch_split_rows(a, stream);
  }
  static ladder::Support supports(const rmsnorm::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

const ladder::Register<SplitRows, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace rmsnorm_rows
