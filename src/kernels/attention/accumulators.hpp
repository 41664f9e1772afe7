// What threads do with the rows that they have of a warpgroup's accumulators (wgmma.hpp): part 0 is row
// g of the warp, part 1 row g + 8, of which four lanes have a quarter each.
#pragma once

#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "head.hpp"

/// Of a row that sees `left` more keys, the first of which is the tile's first.
template <int kScores>
__device__ __forceinline__ void mask_row(float (&s)[kScores], int part, int left) {
  left -= static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int i = part * 2; i < kScores; i += 4) {
    if (i / 4 * 8 >= left) s[i] = -INFINITY;
    if (i / 4 * 8 + 1 >= left) s[i + 1] = -INFINITY;
  }
}

/// Of this thread's quarter of a row, and of `max`.
template <int kScores>
__device__ __forceinline__ float quarter_max(const float (&s)[kScores], int part, float max) {
#pragma unroll
  for (int i = part * 2; i < kScores; i += 4) max = fmaxf(max, fmaxf(s[i], s[i + 1]));
  return max;
}
/// Of the four lanes that have a row.
__device__ __forceinline__ float row_max(float max) {
  max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, 1));
  return fmaxf(max, __shfl_xor_sync(0xffffffff, max, 2));
}

/// Multiplies both rows.
template <int kSums>
__device__ __forceinline__ void scale_rows(float (&acc)[kSums], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) acc[i] *= factor[i / 2 % 2];
}

/// Weights as the left operand of the next product: for 16 keys four words each.
template <class T, int kScores>
__device__ __forceinline__ void pack_weights(std::uint32_t (&a)[kScores / 8][4],
                                             const float (&s)[kScores]) {
#pragma unroll
  for (int i = 0; i < kScores / 2; ++i) a[i / 4][i % 4] = ladder::pack<T>(s[i * 2], s[i * 2 + 1]);
}

/// Divides both rows, the first of which is `first`, by the sums of their weights, which the four lanes
/// have parts of, and stores o and the log-sum-exp. Weights are powers of 2, relative to 2^from.
template <class T, int kSums>
__device__ void store_rows(const Head<T>& head, int first, const float (&acc)[kSums],
                           const float (&sums)[2], const float (&from)[2]) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    float sum = sums[part];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const int row = first + part * 8, column = static_cast<int>(threadIdx.x % 4);
    if (row >= head.queries) continue;
    if (column == 0) head.lse[row] = (from[part] + log2f(sum)) / ladder::ptx::kLog2E;
    const float factor = sum > 0 ? 1 / sum : 0;
    T* const o = head.o + row * head.q_pitch + column * 2;
#pragma unroll
    for (int i = part * 2; i < kSums; i += 4) {
      *reinterpret_cast<std::uint32_t*>(o + i / 4 * 8) =
          ladder::pack<T>(acc[i] * factor, acc[i + 1] * factor);
    }
  }
}
