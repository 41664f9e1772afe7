// Idea      the whole GPU on a row: its parts are read by as many blocks as run at once, whose pairs
//           (maximum, sum) the last one merges; then as many blocks read the parts again, from the L2
//           cache as far as it keeps them, and store the results
// Vs v10    rows that no cluster holds, or that are fewer than the GPU has clusters for: one row kept
//           a cluster's 8 SMs busy, of 132
// Bound by  DRAM bandwidth; where a row is larger than the L2, by what is read twice
// Limits    at most 16384 rows; matrices start at multiples of 16 bytes; relies on ascending dispatch
// Tile      256 threads with 64 bytes each in flight; parts of 16 KiB and more: device/split_rows.hpp
#include "device/split_rows.hpp"
#include "launchers.hpp"
#include "online.hpp"

#include <cfloat>
#include <cmath>
#include <type_traits>

namespace softmax_rows {

template <class Op, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    split_rows(softmax::Args<T> a, ladder::SplitPlan plan, ladder::SplitCounters counters) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads, kWarps = kBlock / 32;
  const ladder::SplitPart<T> part(plan, a.cols);
  const std::int64_t single = part.single(threadIdx.x);

  if (part.is_first_pass) {
    __shared__ Online of_warp[kWarps], of_merge[kWarps];
    Online total{-FLT_MAX, 0};
    auto add = [&]<int kCount>(const float(&x)[kCount]) {
      const float before = total.max;
#pragma unroll
      for (int e = 0; e < kCount; ++e) total.max = fmaxf(total.max, x[e]);
      total.sum *= fast_exp(before - total.max);
#pragma unroll
      for (int e = 0; e < kCount; ++e) total.sum += fast_exp(x[e] - total.max);
    };
    part.template for_each<false>([&](int left, std::int64_t at) {
      Vec v[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) v[i][e] = T(-INFINITY);
        if (i * kBlock < left) v[i] = Vec::load(a.x + at + i * kBlock * Vec::size);
      }
      float x[kLoads * Vec::size];
#pragma unroll
      for (int i = 0; i < kLoads * Vec::size; ++i) {
        x[i] = static_cast<float>(v[i / Vec::size][i % Vec::size]);
      }
      add(x);
    });
    if (single >= 0) {
      const float x[] = {static_cast<float>(a.x[single])};
      add(x);
    }
    total = merge_warps(merge<32>(total), of_warp);
    ladder::publish(plan, counters, part, total, [&](const Online* of_parts, int parts) {
      Online mine{-FLT_MAX, 0};
      for (int i = threadIdx.x; i < parts; i += kBlock) {
        const Online other = of_parts[i];
        const float max = fmaxf(mine.max, other.max);
        mine.sum = mine.sum * fast_exp(mine.max - max) + other.sum * fast_exp(other.max - max);
        mine.max = max;
      }
      return merge_warps(merge<32>(mine), of_merge);
    });
    return;
  }

  const Online total = ladder::await_total<Online>(plan, counters, part);
  const float scale = 1.0f / total.sum, log_sum = logf(total.sum);
  auto result = [&](float x) {
    if constexpr (std::is_same_v<Op, log_softmax>) return T(x - total.max - log_sum);
    return T(fast_exp(x - total.max) * scale);
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
      Vec out;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) out[e] = result(static_cast<float>(v[i][e]));
      out.store_streaming(a.y + at + i * kBlock * Vec::size);
    }
  });
  if (single >= 0) a.y[single] = result(static_cast<float>(a.x[single]));
}

namespace {

struct SplitRows {
  static constexpr ladder::Version version{"the whole GPU on a row, whose parts are read twice"};
  // More rows than are ahead; parts with single elements.
  static constexpr softmax::Problem test_problems[] = {{40, 9001}, {3, 50'001}, {1, 200'000}};

  template <class T>
  static std::size_t workspace(const softmax::Args<T>& a) {
    return workspace_of_split_rows(a);
  }
  template <class T>
  static std::size_t state(const softmax::Args<T>& a) {
    return ladder::state_of_split(a.rows, a.cols);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
    launch_split_rows<softmax>(a, state, stream);
  }
  static ladder::Support supports(const softmax::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

const ladder::Register<SplitRows, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
std::size_t workspace_of_split_rows(const softmax::Args<T>& a) {
  return ladder::workspace_of_split<Online>(ladder::plan_split<T>(a.rows, a.cols, 1, nullptr));
}
template <class Op, class T>
void launch_split_rows(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
  if (a.cols == 0) return;
  const auto plan = ladder::plan_split<T>(a.rows, a.cols, 1, a.workspace);
  ladder::launch(split_rows<Op, T>, plan.blocks(), ladder::kSplitBlock, 0, stream, a, plan,
                 ladder::SplitCounters(state, a.rows));
}

// Other versions call it too.
template std::size_t workspace_of_split_rows(const softmax::Args<float>&);
template std::size_t workspace_of_split_rows(const softmax::Args<ladder::half>&);
template std::size_t workspace_of_split_rows(const softmax::Args<ladder::bfloat16>&);
template void launch_split_rows<softmax>(const softmax::Args<float>&, void*, cudaStream_t);
template void launch_split_rows<softmax>(const softmax::Args<ladder::half>&, void*, cudaStream_t);
template void launch_split_rows<softmax>(const softmax::Args<ladder::bfloat16>&, void*,
                                         cudaStream_t);
template void launch_split_rows<log_softmax>(const softmax::Args<float>&, void*, cudaStream_t);
template void launch_split_rows<log_softmax>(const softmax::Args<ladder::half>&, void*,
                                             cudaStream_t);
template void launch_split_rows<log_softmax>(const softmax::Args<ladder::bfloat16>&, void*,
                                             cudaStream_t);

}  // namespace softmax_rows
