// Idea      the whole GPU on a row: its parts are read by as many blocks as run at once, whose moments
//           (count, mean, squared deviations) the last one merges; then as many blocks read the parts
//           again, from the L2 cache as far as it keeps them, and store the results
// Vs v11    rows that no cluster holds, or that are fewer than the GPU has clusters for: one row kept
//           a cluster's 8 SMs busy, of 132
// Bound by  DRAM bandwidth; where a row is larger than the L2, by what is read twice
// Limits    at most 16384 rows; x and y start at multiples of 16 bytes. No two launches may overlap
// Tile      256 threads with 64 bytes each in flight; parts of 16 KiB and more: device/split_rows.hpp
#include "device/row_span.hpp"
#include "device/split_rows.hpp"
#include "launchers.hpp"

namespace layernorm_rows {

static __device__ ladder::SplitCounters split_counters;

/// The number of some elements, their mean, and the sum of their squared deviations from it.
struct alignas(16) Moments {
  float n = 0, mean = 0, m2 = 0, no_matter = 0;
};

/// As many as both: no small deviations from a large mean are rounded away (Chan, Golub and LeVeque,
/// 1979).
__device__ inline Moments merged(const Moments& a, const Moments& b) {
  const float n = a.n + b.n;
  if (n == 0) return a;
  const float distance = b.mean - a.mean, share = b.n / n;
  return {n, a.mean + distance * share, a.m2 + b.m2 + distance * distance * a.n * share};
}

/// Those of the block's threads, by way of of_warp; all threads get them.
template <int kWarps>
__device__ Moments merged_over_block(Moments mine, Moments (&of_warp)[kWarps]) {
  auto over_lanes = [&]<int kLanes>(std::integral_constant<int, kLanes>) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      Moments other;
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

template <bool kAligned, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    split_rows(layernorm::Args<T> a, ladder::SplitPlan plan) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads, kWarps = kBlock / 32;
  const ladder::SplitPart<T> part(plan, a.cols);
  const std::int64_t single = part.single(threadIdx.x);

  if (part.is_first_pass) {
    __shared__ Moments of_warp[kWarps], of_merge[kWarps];
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
    });
    if (single >= 0) moments = merged(moments, {1, static_cast<float>(a.x[single])});
    moments = merged_over_block(moments, of_warp);
    ladder::publish(plan, split_counters, part, moments, [&](const Moments* of_parts, int parts) {
      Moments mine;
      for (int i = threadIdx.x; i < parts; i += kBlock) mine = merged(mine, of_parts[i]);
      return merged_over_block(mine, of_merge);
    });
    return;
  }

  const auto moments = ladder::await_total<Moments>(plan, split_counters, part);
  const float mean = moments.mean, scale = rsqrtf(moments.m2 / a.cols + a.epsilon);
  auto result = [&](T value, T weight, T bias) {
    const float z = (static_cast<float>(value) - mean) * scale;
    return T(z * static_cast<float>(weight) + static_cast<float>(bias));
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
      const Vec bias = ladder::load_anywhere<kAligned>(a.bias, column, a.cols);
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(v[i][e], weight[e], bias[e]);
      out.store_streaming(a.y + at + i * kBlock * Vec::size);
    }
  });
  if (single >= 0) {
    const auto column = static_cast<int>(single - part.start);
    a.y[single] = result(a.x[single], a.weight[column], a.bias[column]);
  }
}

template <class T>
std::size_t workspace_of_split_rows(const layernorm::Args<T>& a) {
  return ladder::workspace_of_split<Moments>(ladder::plan_split<T>(a.rows, a.cols, 1, nullptr));
}
template std::size_t workspace_of_split_rows(const layernorm::Args<float>&);
template std::size_t workspace_of_split_rows(const layernorm::Args<ladder::half>&);
template std::size_t workspace_of_split_rows(const layernorm::Args<ladder::bfloat16>&);

template <class T>
void launch_split_rows(const layernorm::Args<T>& a, cudaStream_t stream) {
  if (a.cols == 0) return;
  const auto plan = ladder::plan_split<T>(a.rows, a.cols, 1, a.workspace);
  auto* const kernel =
      a.cols % ladder::Vec128<T>::size == 0 ? split_rows<true, T> : split_rows<false, T>;
  ladder::launch(kernel, plan.blocks(), ladder::kSplitBlock, 0, stream, a, plan);
}
template void launch_split_rows(const layernorm::Args<float>&, cudaStream_t);
template void launch_split_rows(const layernorm::Args<ladder::half>&, cudaStream_t);
template void launch_split_rows(const layernorm::Args<ladder::bfloat16>&, cudaStream_t);

namespace {

struct SplitRows {
  static constexpr ladder::Version version{"the whole GPU on a row, whose parts are read twice"};
  // More rows than are ahead; parts with single elements.
  static constexpr layernorm::Problem test_problems[] = {{40, 9001}, {3, 50'001}, {1, 200'000}};

  template <class T>
  static std::size_t workspace(const layernorm::Args<T>& a) {
    return workspace_of_split_rows(a);
  }
  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    launch_split_rows(a, stream);
  }
  static ladder::Support supports(const layernorm::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

const ladder::Register<SplitRows, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace layernorm_rows
