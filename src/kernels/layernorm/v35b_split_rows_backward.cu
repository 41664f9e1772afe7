// Idea      the whole GPU on a row, as v12 has it: the parts of the rows are read by as many blocks as
//           run at once, for their moments and their sums of g and of g * (x - mean); then each block
//           takes some columns of all rows, reads them again, stores dx, and has dweight and dbias in
//           registers
// Vs v35    rows that no cluster holds, of which v31 has one in a block: a row of 128 MiB kept one SM
//           busy, of 132
// Bound by  DRAM bandwidth, of 5n less what the L2 keeps: x and dy are read twice, so that large
//           matrices reach at most 60 % of the roof, which counts 3n
// Limits    at most 16384 rows; x, dy and dx start at multiples of 16 bytes. Where the columns are no
//           multiple of the vector, the second pass moves single elements, as v32 does
// Tile      256 threads with 32 bytes each of x and dy in flight: device/split_rows.hpp; then a vector
//           of 4 rows each: row_norm/gradients_of_columns.hpp
//
// The order of the additions depends on the number of SMs only: the same bits in every run.
#include "device/floats.hpp"
#include "device/row_span.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/gradient_sums.hpp"
#include "kernels/row_norm/gradients_of_columns.hpp"
#include "kernels/row_norm/launchers.hpp"

#include <type_traits>

namespace row_norm {

/// Of n elements: the mean of x, the sums of its squared deviations d * d, of g, and of g * d.
struct alignas(16) GradientMoments {
  float n = 0, mean = 0, m2 = 0, sum_g = 0, sum_gd = 0, no_matter[3] = {};

  static constexpr int kWarps = ladder::kSplitBlock / 32;
  /// In shared memory, number by number: as structures, a lane's would be in another's banks.
  struct OfWarps {
    float n[kWarps], mean[kWarps], m2[kWarps], sum_g[kWarps], sum_gd[kWarps];
  };

  /// Of the n elements, one after the other.
  __device__ void add(float x, float dy, float weight) {
    const float d = x - mean, g = dy * weight;
    m2 += d * d;
    sum_g += g;
    sum_gd += g * d;
  }
  __device__ RowFactors factors(int cols, float epsilon) const {
    const float scale = rsqrtf(m2 / cols + epsilon);
    const float mean_gz = sum_gd / cols * scale, mean_g = sum_g / cols;
    return {mean, scale, mean_gz * scale, mean_g * scale};
  }
};

/// Of both, without loss where the mean is large, as v12 merges moments: with the mean, each part's
/// sum of g * d moves by its sum of g.
__device__ inline GradientMoments merged(const GradientMoments& a, const GradientMoments& b) {
  const float n = a.n + b.n;
  if (n == 0) return a;
  const float distance = b.mean - a.mean, of_a = a.n / n, of_b = b.n / n;
  return {n, a.mean + distance * of_b, a.m2 + b.m2 + distance * distance * a.n * of_b,
          a.sum_g + b.sum_g, a.sum_gd + b.sum_gd + distance * (b.sum_g * of_a - a.sum_g * of_b)};
}

/// Those of the block's threads, by way of of_warp; all threads get them.
__device__ inline GradientMoments merged_over_block(GradientMoments mine,
                                                    GradientMoments::OfWarps& of_warp) {
  auto over_lanes = [&]<int kLanes>(std::integral_constant<int, kLanes>) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      GradientMoments other;
      other.n = __shfl_xor_sync(0xffffffffu, mine.n, distance);
      other.mean = __shfl_xor_sync(0xffffffffu, mine.mean, distance);
      other.m2 = __shfl_xor_sync(0xffffffffu, mine.m2, distance);
      other.sum_g = __shfl_xor_sync(0xffffffffu, mine.sum_g, distance);
      other.sum_gd = __shfl_xor_sync(0xffffffffu, mine.sum_gd, distance);
      // The lower lane's first, so that both get the same bits.
      mine = threadIdx.x & distance ? merged(other, mine) : merged(mine, other);
    }
  };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  over_lanes(std::integral_constant<int, 32>{});
  if (lane == 0) {
    of_warp.n[warp] = mine.n;
    of_warp.mean[warp] = mine.mean;
    of_warp.m2[warp] = mine.m2;
    of_warp.sum_g[warp] = mine.sum_g;
    of_warp.sum_gd[warp] = mine.sum_gd;
  }
  __syncthreads();
  const int w = lane % GradientMoments::kWarps;
  mine = {of_warp.n[w], of_warp.mean[w], of_warp.m2[w], of_warp.sum_g[w], of_warp.sum_gd[w]};
  over_lanes(std::integral_constant<int, GradientMoments::kWarps>{});
  return mine;
}

/// What a part of a row has: of RMSNorm, without a mean, no more than two sums.
template <class Norm>
using MomentsOf = std::conditional_t<Norm::kCentred, GradientMoments, GradientSums>;

template <bool kAligned, class Norm, class T>
__global__ void __launch_bounds__(ladder::kSplitBlock, ladder::kSplitBlocksOfSm)
    factors_of_split_rows(typename Norm::template Args<T> a, ladder::SplitPlan plan,
                          RowFactors* of_rows, unsigned* parts_done) {
  using Vec = ladder::Vec128<T>;
  using Floats = ladder::Floats<Vec>;
  using Moments = MomentsOf<Norm>;
  constexpr int kBlock = ladder::kSplitBlock, kLoads = ladder::kSplitLoads / 2;
  __shared__ typename Moments::OfWarps of_part, of_merge;
  const ladder::SplitPart<T> part(plan, a.cols);

  Moments moments;
  part.template for_each<false, kLoads>([&](int left, std::int64_t at) {
    Vec x[kLoads], dy[kLoads], weight[kLoads];
    int count = 0;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if constexpr (Norm::kCentred) {  // the mean is of all of x
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) x[i][e] = T(0.0f);
        if (i * kBlock >= left) continue;
      } else {
        if (i * kBlock >= left) break;
      }
      const std::int64_t here = at + i * kBlock * Vec::size;
      x[i] = Vec::load(a.x + here);
      dy[i] = Vec::load(a.dy + here);
      weight[i] =
          ladder::load_anywhere<kAligned>(a.weight, static_cast<int>(here - part.start), a.cols);
      count += Vec::size;
    }
    Moments of_step = moments;
    if constexpr (Norm::kCentred) {
      if (count == 0) return;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const Floats x_vec(x[i]);
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) sum += x_vec[e];
      }
      of_step = {static_cast<float>(count), sum / count};
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i * kBlock >= left) break;
      const Floats x_vec(x[i]), dy_vec(dy[i]), weight_vec(weight[i]);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) of_step.add(x_vec[e], dy_vec[e], weight_vec[e]);
    }
    if constexpr (Norm::kCentred) {
      moments = merged(moments, of_step);
    } else {
      moments = of_step;
    }
  });
  const std::int64_t single = part.single(threadIdx.x);
  if (single >= 0) {
    if constexpr (Norm::kCentred) {
      const float g =
          static_cast<float>(a.dy[single]) * static_cast<float>(a.weight[single - part.start]);
      moments = merged(moments, {1, static_cast<float>(a.x[single]), 0, g});
    } else {
      moments.add(static_cast<float>(a.x[single]), static_cast<float>(a.dy[single]),
                  static_cast<float>(a.weight[single - part.start]));
    }
  }
  moments = merged_over_block(moments, of_part);

  ladder::merge_parts(
      plan, parts_done, part, moments,
      [&](const Moments* of_parts, int parts) {
        Moments mine;
        for (int i = threadIdx.x; i < parts; i += kBlock) {
          const Moments one = of_parts[i];  // in whole vectors
          mine = merged(mine, one);
        }
        return merged_over_block(mine, of_merge);
      },
      [&](const Moments& total) {
        const RowFactors factors = total.factors(a.cols, a.epsilon);
        of_rows[part.row] = factors;  // a vector
      });
}

namespace {

struct SplitRowsBackward {
  static constexpr ladder::Version version{"the whole GPU on a row, then blocks on columns"};
  // Rows that warps share, and that one warp has; parts with single elements.
  static constexpr layernorm::Problem test_problems[] = {{40, 9001}, {70, 520}, {3, 100'000}};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return workspace_of_split_rows_backward<layernorm_backward>(a);
  }
  template <class T>
  static std::size_t state(const layernorm_backward::Args<T>& a) {
    return state_of_split_rows_backward<layernorm_backward>(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, void* state, cudaStream_t stream) {
    launch_split_rows_backward<layernorm_backward>(a, state, stream);
  }
  static ladder::Support supports(const layernorm::Problem& p) {
    if (p.rows <= ladder::kMostSplitRows) return ladder::supported();
    return ladder::unsupported("more than %d rows", ladder::kMostSplitRows);
  }
};

const ladder::Register<SplitRowsBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

template <class Norm, class T>
std::size_t workspace_of_split_rows_backward(const typename Norm::template Args<T>& a) {
  return ladder::workspace_of_split<MomentsOf<Norm>>(
             ladder::plan_split<T>(a.rows, a.cols, 2, nullptr)) +
         a.rows * sizeof(RowFactors);
}

template <class Norm, class T>
void launch_split_rows_backward(const typename Norm::template Args<T>& a, void* state,
                                cudaStream_t stream) {
  if (a.cols == 0) return;
  auto* const of_rows = static_cast<RowFactors*>(a.workspace);
  auto plan = ladder::plan_split<T>(a.rows, a.cols, 2, of_rows + a.rows);
  plan.ahead = a.rows;  // all of the first passes
  auto* const kernel = a.cols % ladder::Vec128<T>::size == 0
                           ? factors_of_split_rows<true, Norm, T>
                           : factors_of_split_rows<false, Norm, T>;
  ladder::launch(kernel, plan.rows * plan.parts, ladder::kSplitBlock, 0, stream, a, plan, of_rows,
                 static_cast<unsigned*>(state));
  launch_gradients_of_columns<Norm, T>(a, of_rows, stream);
}

#define INSTANTIATE(Norm, T)                                                         \
  template std::size_t workspace_of_split_rows_backward<Norm>(const Norm::Args<T>&); \
  template void launch_split_rows_backward<Norm>(const Norm::Args<T>&, void*, cudaStream_t);
LADDER_EACH_NORM(INSTANTIATE, _backward)

}  // namespace row_norm
