// Idea      the whole GPU on a row, as v10c has it
// Vs v33    rows that no cluster holds, or that are fewer than the GPU has clusters for
// Bound by  DRAM bandwidth; where a row of y and one of dy are larger than the L2, by what is read
//           twice
// Limits    at most 16384 rows; matrices start at multiples of 16 bytes; relies on ascending dispatch
// Tile      256 threads with 32 bytes each of y and dy in flight: device/split_rows.hpp
#include "device/split_rows.hpp"
#include "gradient.hpp"
#include "launchers.hpp"

namespace softmax_rows {

template <class Op, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    backward_split_rows(softmax_gradient::Args<T> a, ladder::SplitPlan plan,
                        ladder::SplitCounters counters) {
  using Vec = ladder::Vec128<T>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads / 2,
                kWarps = kBlock / 32;
  const ladder::SplitPart<T> part(plan, a.cols);
  const std::int64_t single = part.single(threadIdx.x);
  float single_y = 0, single_dy = 0;
  if (single >= 0) {
    single_y = static_cast<float>(a.y[single]);
    single_dy = static_cast<float>(a.dy[single]);
  }

  if (part.is_first_pass) {
    __shared__ float of_warp[kWarps], of_merge[kWarps];
    float sum = single >= 0 ? summand(Op{}, single_y, single_dy) : 0;
    part.template for_each<false, kLoads>([&](int left, std::int64_t at) {
      Vec y[kLoads], dy[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) y[i][e] = dy[i][e] = T(0.0f);
        if (i * kBlock >= left) continue;
        y[i] = Vec::load(a.y + at + i * kBlock * Vec::size);
        dy[i] = Vec::load(a.dy + at + i * kBlock * Vec::size);
      }
#pragma unroll
      for (int i = 0; i < kLoads * Vec::size; ++i) {
        const int k = i / Vec::size, e = i % Vec::size;
        sum += summand(Op{}, static_cast<float>(y[k][e]), static_cast<float>(dy[k][e]));
      }
    });
    sum = sum_warps(ladder::warp_sum<32>(sum), of_warp);
    ladder::publish(plan, counters, part, sum, [&](const float* of_parts, int parts) {
      float mine = 0;
      for (int i = threadIdx.x; i < parts; i += kBlock) mine += of_parts[i];
      return sum_warps(ladder::warp_sum<32>(mine), of_merge);
    });
    return;
  }

  const float sum = ladder::await_total<float>(plan, counters, part);
  // From the back: what was read last is still in the L2.
  part.template for_each<true, kLoads>([&](int left, std::int64_t at) {
    Vec y[kLoads], dy[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock >= left) continue;
      y[i] = Vec::load_streaming(a.y + at + i * kBlock * Vec::size);
      dy[i] = Vec::load_streaming(a.dy + at + i * kBlock * Vec::size);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock >= left) break;
      Vec dx;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        dx[e] = T(gradient(Op{}, static_cast<float>(y[i][e]), static_cast<float>(dy[i][e]), sum));
      }
      dx.store_streaming(a.dx + at + i * kBlock * Vec::size);
    }
  });
  if (single >= 0) a.dx[single] = T(gradient(Op{}, single_y, single_dy, sum));
}

namespace {

template <class Op>
struct BackwardSplitRows {
  static constexpr ladder::Version version{"the whole GPU on a row, whose parts are read twice"};
  // More rows than are ahead; parts with single elements.
  static constexpr softmax::Problem test_problems[] = {{40, 9001}, {3, 50'001}, {1, 200'000}};

  template <class T>
  static std::size_t workspace(const softmax_gradient::Args<T>& a) {
    return workspace_of_backward_split_rows(a);
  }
  template <class T>
  static std::size_t state(const softmax_gradient::Args<T>& a) {
    return ladder::state_of_split(a.rows, a.cols);
  }
  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, void* state, cudaStream_t stream) {
    launch_backward_split_rows<Op>(a, state, stream);
  }
  static ladder::Support supports(const softmax::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardSplitRows<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace

template <class T>
std::size_t workspace_of_backward_split_rows(const softmax_gradient::Args<T>& a) {
  return ladder::workspace_of_split<float>(ladder::plan_split<T>(a.rows, a.cols, 2, nullptr));
}
template <class Op, class T>
void launch_backward_split_rows(const softmax_gradient::Args<T>& a, void* state,
                                cudaStream_t stream) {
  if (a.cols == 0) return;
  const auto plan = ladder::plan_split<T>(a.rows, a.cols, 2, a.workspace);
  ladder::launch(backward_split_rows<Op, T>, plan.blocks(), ladder::kSplitBlock, 0, stream, a, plan,
                 ladder::SplitCounters(state, a.rows));
}

// Other versions call it too.
template std::size_t workspace_of_backward_split_rows(const softmax_gradient::Args<float>&);
template std::size_t workspace_of_backward_split_rows(const softmax_gradient::Args<ladder::half>&);
template std::size_t workspace_of_backward_split_rows(
    const softmax_gradient::Args<ladder::bfloat16>&);
template void launch_backward_split_rows<softmax_backward>(const softmax_gradient::Args<float>&,
                                                           void*, cudaStream_t);
template void launch_backward_split_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, void*, cudaStream_t);
template void launch_backward_split_rows<softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, void*, cudaStream_t);
template void launch_backward_split_rows<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                               void*, cudaStream_t);
template void launch_backward_split_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::half>&, void*, cudaStream_t);
template void launch_backward_split_rows<log_softmax_backward>(
    const softmax_gradient::Args<ladder::bfloat16>&, void*, cudaStream_t);

}  // namespace softmax_rows
