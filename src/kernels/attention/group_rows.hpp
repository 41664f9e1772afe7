// Sixteen rows of queries that see the same keys (cache.hpp: the heads of a group) on a warp's tensor
// cores: M of mma.sync. A lane has rows lane / 4 and lane / 4 + 8, of eight columns two neighbours.
#pragma once

#include "cache.hpp"
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "swizzled_tile.hpp"

/// What a warp has of sixteen rows, in shared memory. Pairs of four rows lie in all banks once.
template <int D>
struct RowSums {
  float element[16 * D];

  __device__ float2* at(int row, int column) {
    return reinterpret_cast<float2*>(&element[row * D + (column ^ row % 4 * 8)]);
  }
};

/// Of the four lanes that have a row.
inline __device__ float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
inline __device__ float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

template <class T, int D>
struct GroupRows {
  std::uint32_t q[D / 16][4];
  float acc[D / 8][4], max[2], sum[2];
  int seen[2];

  /// Of no key yet. The words of Q come as mma wants A; rows that do not exist are zero.
  __device__ void begin(const Queries<T>& from, int row0, int lane) {
    clear(from, row0, lane);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row0 + lane / 4 + r * 8;
      const bool exists = row < from.rows;
      const T* const own = from.q + (exists ? from.at(row) : 0) + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
#pragma unroll
        for (int w = 0; w < 2; ++w) {
          q[i][r + w * 2] =
              exists ? *reinterpret_cast<const std::uint32_t*>(own + i * 16 + w * 8) : 0;
        }
      }
    }
  }
  /// The same, of rows that are in shared memory.
  __device__ void begin(SwizzledTile<T, 16, D>& rows, const Queries<T>& from, int row0, int lane) {
    clear(from, row0, lane);
#pragma unroll
    for (int i = 0; i < D / 16; ++i) rows.fragment_a(q[i], 0, i * 2, lane);
  }
  __device__ void clear(const Queries<T>& from, int row0, int lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row0 + lane / 4 + r * 8;
      seen[r] = row < from.rows ? from.visible(row) : 0;
      max[r] = -INFINITY;
      sum[r] = 0;
#pragma unroll
      for (auto& of_columns : acc) of_columns[r * 2] = of_columns[r * 2 + 1] = 0;
    }
  }

  /// The sixteen keys from key0 on, and their values. `scale` makes exponentials powers of 2.
  __device__ void add(SwizzledTile<T, 16, D>& keys, SwizzledTile<T, 16, D>& values, int key0,
                      float scale, int lane) {
    float scores[2][4] = {};
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      std::uint32_t k[4];
      keys.fragments_b(k, 0, i * 2, lane);
      ladder::ptx::mma_m16n8k16<T>(scores[0], q[i], {k[0], k[1]}, scores[0]);
      ladder::ptx::mma_m16n8k16<T>(scores[1], q[i], {k[2], k[3]}, scores[1]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float new_max = max[r];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int e = r * 2; e < r * 2 + 2; ++e) {
          const bool is_seen = key0 + j * 8 + lane % 4 * 2 + e % 2 < seen[r];
          scores[j][e] = is_seen ? scores[j][e] * scale : -INFINITY;
          new_max = fmaxf(new_max, scores[j][e]);
        }
      }
      new_max = max_of_row(new_max);
      const float from = new_max == -INFINITY ? 0 : new_max;  // -inf - -inf is no number
      const float factor = ladder::ptx::exp2_approx(max[r] - from);
      max[r] = new_max;
      sum[r] *= factor;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int e = r * 2; e < r * 2 + 2; ++e) {
          scores[j][e] = ladder::ptx::exp2_approx(scores[j][e] - from);
          sum[r] += scores[j][e];
        }
      }
#pragma unroll
      for (auto& of_columns : acc) {
        of_columns[r * 2] *= factor;
        of_columns[r * 2 + 1] *= factor;
      }
    }
    const std::uint32_t weights[] = {
        ladder::pack<T>(scores[0][0], scores[0][1]), ladder::pack<T>(scores[0][2], scores[0][3]),
        ladder::pack<T>(scores[1][0], scores[1][1]), ladder::pack<T>(scores[1][2], scores[1][3])};
#pragma unroll
    for (int j = 0; j < D / 16; ++j) {
      std::uint32_t v[4];
      values.fragments_b_trans(v, 0, j * 2, lane);
      ladder::ptx::mma_m16n8k16<T>(acc[j * 2], weights, {v[0], v[1]}, acc[j * 2]);
      ladder::ptx::mma_m16n8k16<T>(acc[j * 2 + 1], weights, {v[2], v[3]}, acc[j * 2 + 1]);
    }
  }

  /// Writes what the warp has of its rows: sums of values, and of each row {maximum, sum of weights}.
  __device__ void store(RowSums<D>& values, float2 (&max_and_sum)[16], int lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + r * 8;
      const float total = sum_of_row(sum[r]);
      if (lane % 4 == 0) max_and_sum[row] = make_float2(max[r], total);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        *values.at(row, j * 8 + lane % 4 * 2) = make_float2(acc[j][r * 2], acc[j][r * 2 + 1]);
      }
    }
  }
};

/// A row, in a warp: of the sums of its values a lane has the columns lane * 2 + 64 * i and the next.
template <int D>
struct Row {
  float2 sums[D / 64];
  float max, weights;

  /// Adds up what warps have, each of which has written {maximum, sum of weights} of sixteen rows.
  template <int kWarps, class Sums>
  __device__ void add_up(const float2 (&of_warps)[kWarps][16], int row, Sums sums_of, int lane) {
    float2 parts[kWarps];  // read once
#pragma unroll
    for (int w = 0; w < kWarps; ++w) parts[w] = of_warps[w][row];
    add_up(
        kWarps, [&](int w) { return parts[w]; }, sums_of, lane);
  }

  /// Adds up `count` parts of it: part(i) is a part's {maximum, sum of weights}, sums(i, column) two
  /// of its sums. There may be none, and any of them may have seen no key.
  template <class Part, class Sums>
  __device__ void add_up(int count, Part part, Sums sums_of, int lane) {
    max = -INFINITY;
    for (int i = 0; i < count; ++i) max = fmaxf(max, part(i).x);
    const float from = max == -INFINITY ? 0 : max;  // -inf - -inf is no number
    weights = 0;
#pragma unroll
    for (float2& pair : sums) pair = make_float2(0, 0);
    for (int i = 0; i < count; ++i) {
      const float2 of_part = part(i);
      const float factor = ladder::ptx::exp2_approx(of_part.x - from);
      weights += of_part.y * factor;
#pragma unroll
      for (int c = 0; c < D / 64; ++c) {
        const float2 pair = sums_of(i, lane * 2 + c * 64);
        sums[c].x += pair.x * factor;
        sums[c].y += pair.y * factor;
      }
    }
  }

  /// Writes the row's result.
  template <class T>
  __device__ void store(const Queries<T>& to, int row, int lane) const {
    const float factor = weights > 0 ? 1 / weights : 0;
    T* const o = to.o + to.at(row) + lane * 2;
#pragma unroll
    for (int c = 0; c < D / 64; ++c) {
      *reinterpret_cast<std::uint32_t*>(o + c * 64) =
          ladder::pack<T>(sums[c].x * factor, sums[c].y * factor);
    }
    if (lane == 0) *to.lse_of(row) = (max + log2f(weights)) / ladder::ptx::kLog2E;
  }
};
