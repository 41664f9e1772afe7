// What RMSNorm's parts of a row give to the gradients: v35b of layernorm, whose parts have moments.
#pragma once

#include "device/row_team.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/gradients_of_columns.hpp"

namespace row_norm {

/// Of some elements: the sums of x * x and of g * x.
struct alignas(8) GradientSums {
  using Team = ladder::BlockTeam<ladder::kSplitBlock>;
  using OfWarps = ladder::SumStorage<Team, 2>;

  float xx = 0, gx = 0;

  __device__ void add(float x, float dy, float weight) {
    xx += x * x;
    gx += dy * weight * x;
  }
  __device__ RowFactors factors(int cols, float epsilon) const {
    const float scale = rsqrtf(xx / cols + epsilon);
    const float mean_gz = gx / cols * scale;
    return {0, scale, mean_gz * scale, 0};
  }
};

__device__ inline GradientSums merged(const GradientSums& a, const GradientSums& b) {
  return {a.xx + b.xx, a.gx + b.gx};
}

/// Those of the block's threads, by way of of_warps; all threads get them.
__device__ inline GradientSums merged_over_block(const GradientSums& mine,
                                                 GradientSums::OfWarps& of_warps) {
  float sums[] = {mine.xx, mine.gx};
  GradientSums::Team::sum(sums, of_warps);
  return {sums[0], sums[1]};
}

}  // namespace row_norm
