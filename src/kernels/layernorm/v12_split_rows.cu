// Idea      the whole GPU on a row: its parts are read by as many blocks as run at once, whose moments
//           (count, mean, squared deviations) the last one merges; then as many blocks read the parts
//           again, from the L2 cache as far as it keeps them, and store the results
// Vs v11    rows that no cluster holds, or that are fewer than the GPU has clusters for: one row kept
//           a cluster's 8 SMs busy, of 132
// Bound by  DRAM bandwidth; where a row is larger than the L2, by what is read twice
// Limits    at most 16384 rows; x and y start at multiples of 16 bytes. Relies on ascending
//           dispatch
// Tile      256 threads with 64 bytes each in flight; parts of 16 KiB and more: device/split_rows.hpp
#include "device/row_span.hpp"
#include "device/row_team.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

/// The number of some elements, their mean, and the sum of their squared deviations from it.
struct alignas(16) CentredMoments {
  float n = 0, mean = 0, m2 = 0, no_matter = 0;

  __device__ static CentredMoments of(float element) { return {1, element}; }
};

/// As many as both: no small deviations from a large mean are rounded away (Chan, Golub and LeVeque,
/// 1979).
__device__ inline CentredMoments merged(const CentredMoments& a, const CentredMoments& b) {
  const float n = a.n + b.n;
  if (n == 0) return a;
  const float distance = b.mean - a.mean, share = b.n / n;
  return {n, a.mean + distance * share, a.m2 + b.m2 + distance * distance * a.n * share};
}

/// Those of the block's threads, by way of of_warp; all threads get them.
template <int kWarps>
__device__ CentredMoments merged_over_block(CentredMoments mine,
                                            CentredMoments (&of_warp)[kWarps]) {
  auto over_lanes = [&]<int kLanes>(std::integral_constant<int, kLanes>) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      CentredMoments other;
      other.n = __shfl_xor_sync(0xffffffffu, mine.n, distance);
      other.mean = __shfl_xor_sync(0xffffffffu, mine.mean, distance);
      other.m2 = __shfl_xor_sync(0xffffffffu, mine.m2, distance);
      // The lower lane's first, so that both get the same bits.
      mine = threadIdx.x & distance ? merged(other, mine) : merged(mine, other);
    }
  };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  over_lanes(std::integral_constant<int, 32>{});
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  mine = of_warp[lane % kWarps];
  over_lanes(std::integral_constant<int, kWarps>{});
  return mine;
}

/// Of RMSNorm: the sum of squares, whatever their number.
struct Squares {
  float m2 = 0;

  __device__ static Squares of(float element) { return {element * element}; }
};
__device__ inline Squares merged(Squares a, Squares b) { return {a.m2 + b.m2}; }

using Team = ladder::BlockTeam<ladder::kSplitBlock>;
__device__ inline Squares merged_over_block(Squares mine, ladder::SumStorage<Team>& of_warp) {
  return {ladder::team_sum<Team>(mine.m2, of_warp)};
}

template <class Norm>
using MomentsOf = std::conditional_t<Norm::kCentred, CentredMoments, Squares>;
template <class Norm>
using OfWarps =
    std::conditional_t<Norm::kCentred, CentredMoments[Team::kWarps], ladder::SumStorage<Team>>;

/// Of RMSNorm, which is not centred, the mean counts as 0, and there is no bias.
template <class Norm, bool kAligned, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    split_rows(typename Norm::template Args<T> a, ladder::SplitPlan plan,
               ladder::SplitCounters counters) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads;
  const ladder::SplitPart<T> part(plan, a.cols);
  const std::int64_t single = part.single(threadIdx.x);

  if (part.is_first_pass) {
    using Moments = MomentsOf<Norm>;
    __shared__ OfWarps<Norm> of_warp, of_merge;
    Moments moments;
    part.template for_each<false>([&](int left, std::int64_t at) {
      Vec v[kLoads];
      int count = 0;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) v[i][e] = T(0.0f);
        if (i * kBlock >= left) continue;
        v[i] = Vec::load(a.x + at + i * kBlock * Vec::size);
        count += Vec::size;
      }
      if constexpr (Norm::kCentred) {
        if (count == 0) return;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kLoads * Vec::size; ++i) {
          sum += static_cast<float>(v[i / Vec::size][i % Vec::size]);
        }
        Moments of_step{static_cast<float>(count), sum / count};
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          if (i * kBlock >= left) break;
#pragma unroll
          for (int e = 0; e < Vec::size; ++e) {
            const float distance = static_cast<float>(v[i][e]) - of_step.mean;
            of_step.m2 += distance * distance;
          }
        }
        moments = merged(moments, of_step);
      } else {
#pragma unroll
        for (int i = 0; i < kLoads * Vec::size; ++i) {
          const auto element = static_cast<float>(v[i / Vec::size][i % Vec::size]);
          moments = merged(moments, Squares::of(element));
        }
      }
    });
    if (single >= 0) moments = merged(moments, Moments::of(static_cast<float>(a.x[single])));
    moments = merged_over_block(moments, of_warp);
    auto merge = [&](const Moments* of_parts, int parts) {
      Moments mine;
      for (int i = threadIdx.x; i < parts; i += kBlock) mine = merged(mine, of_parts[i]);
      return merged_over_block(mine, of_merge);
    };
    ladder::publish(plan, counters, part, moments, merge);
    return;
  }

  const auto moments = ladder::await_total<MomentsOf<Norm>>(plan, counters, part);
  float mean = 0;
  if constexpr (Norm::kCentred) mean = moments.mean;
  const float scale = rsqrtf(moments.m2 / a.cols + a.epsilon);
  auto result = [&](T value, T weight, T bias) {
    const float z = (static_cast<float>(value) - mean) * scale;
    const float product = z * static_cast<float>(weight);
    return T(Norm::kCentred ? product + static_cast<float>(bias) : product);
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
      Vec bias{};
      if constexpr (Norm::kCentred) bias = ladder::load_anywhere<kAligned>(a.bias, column, a.cols);
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(v[i][e], weight[e], bias[e]);
      out.store_streaming(a.y + at + i * kBlock * Vec::size);
    }
  });
  if (single >= 0) {
    const auto column = static_cast<int>(single - part.start);
    const T x = a.x[single], weight = a.weight[column];
    T bias = T(0.0f);
    if constexpr (Norm::kCentred) bias = a.bias[column];
    a.y[single] = result(x, weight, bias);
  }
}

}  // namespace

template <class Norm, class T>
std::size_t workspace_of_split_rows(const typename Norm::template Args<T>& a) {
  return ladder::workspace_of_split<MomentsOf<Norm>>(
      ladder::plan_split<T>(a.rows, a.cols, 1, nullptr));
}

template <class Norm, class T>
void launch_split_rows(const typename Norm::template Args<T>& a, void* state, cudaStream_t stream) {
  if (a.cols == 0) return;
  const auto plan = ladder::plan_split<T>(a.rows, a.cols, 1, a.workspace);
  auto* const kernel = a.cols % ladder::Vec128<T>::size == 0 ? split_rows<Norm, true, T>
                                                             : split_rows<Norm, false, T>;
  ladder::launch(kernel, plan.blocks(), ladder::kSplitBlock, 0, stream, a, plan,
                 ladder::SplitCounters(state, a.rows));
}

#define INSTANTIATE(Norm, T)                                                \
  template std::size_t workspace_of_split_rows<Norm>(const Norm::Args<T>&); \
  template void launch_split_rows<Norm>(const Norm::Args<T>&, void*, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, )

}  // namespace row_norm

namespace {

struct SplitRows {
  static constexpr ladder::Version version{"the whole GPU on a row, whose parts are read twice"};
  // More rows than are ahead; parts with single elements.
  static constexpr layernorm::Problem test_problems[] = {{40, 9001}, {3, 50'001}, {1, 200'000}};

  template <class T>
  static std::size_t workspace(const layernorm::Args<T>& a) {
    return row_norm::workspace_of_split_rows<layernorm>(a);
  }
  template <class T>
  static std::size_t state(const layernorm::Args<T>& a) {
    return ladder::state_of_split(a.rows, a.cols);
  }
  template <class T>
  static void launch(const layernorm::Args<T>& a, void* state, cudaStream_t stream) {
    row_norm::launch_split_rows<layernorm>(a, state, stream);
  }
  static ladder::Support supports(const layernorm::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

const ladder::Register<SplitRows, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
