// What the gradients on Hopper share: tiles of queries in the workspace, weights and their gradients
// in the accumulators of products that are keys by queries, and how sums of rows are stored.
#pragma once

#include "backward_head.hpp"
#include "bulk_tiles.hpp"
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/stmatrix.hpp"
#include "online_rows.hpp"

namespace attention_tiles {

/// Queries of a tile, whose sums of dq are two accumulators of 64 by 64 for both head sizes: two
/// warpgroups have 64 queries each, or all 64, and 64 columns each.
template <int D>
constexpr int kQueries = D == 64 ? 128 : 64;
constexpr int kDqSums = 64 * 64, kTileSums = 2 * kDqSums;

/// Of the queries of a tile, as they lie in the workspace. lse times log2 e; infinite where there is
/// no query, and where it sees no key: then its weights are zero.
template <int D>
struct Rows {
  alignas(16) float lse[kQueries<D>], delta[kQueries<D>];
};

/// The workspace: sums of dq in fp32, and Rows, of whole tiles of queries. Each sequence of
/// each head begins a tile, however long those before it are. A warpgroup's sums lie as it has them
/// in registers: d[4 i] to d[4 i + 3] of thread t are float4 number i * 128 + t.
struct QueryTiles {
  float* sums;  // kTileSums for each tile
  float* rows;  // 2 * tile_rows for each tile
  std::size_t bytes_of_sums;
  std::size_t bytes;
  std::int64_t of_head;  // tiles
  int tile_rows;

  template <class T>
  static std::int64_t count(const attention_backward::Args<T>& a) {
    return a.heads * (a.all_queries / (kTileSums / a.d) + a.batch);
  }

  template <class T>
  explicit QueryTiles(const attention_backward::Args<T>& a) : tile_rows(kTileSums / a.d) {
    of_head = a.all_queries / tile_rows + a.batch;
    const std::int64_t tiles = count(a), of_sums = tiles * kTileSums;
    sums = static_cast<float*>(a.workspace);
    rows = sums + of_sums;
    bytes_of_sums = sizeof(float) * static_cast<std::size_t>(of_sums);
    bytes = sizeof(float) * static_cast<std::size_t>(of_sums + tiles * 2 * tile_rows);
  }

  /// The first tile of a head of a sequence.
  template <class T>
  __device__ std::int64_t first(const attention_backward::Args<T>& a, int head,
                                int sequence) const {
    const std::int64_t row =
        a.query_starts == nullptr ? std::int64_t{sequence} * a.queries : a.query_starts[sequence];
    return head * of_head + (tile_rows == 64 ? row / 64 : row / 128) + sequence;
  }
  __device__ float* sums_of(std::int64_t tile) const { return sums + tile * kTileSums; }
  __device__ float4* sums_of(std::int64_t tile, int warpgroup) const {
    return reinterpret_cast<float4*>(sums_of(tile) + warpgroup * kDqSums);
  }
  __device__ float* rows_of(std::int64_t tile) const { return rows + tile * 2 * tile_rows; }
};

/// Of products keys by queries a thread has the keys `key` and key + 8, of each eight queries two
/// neighbours. Turns scores into weights; query i of the tile sees the keys before seen(i).
template <int D, int kScores, class Seen>
__device__ __forceinline__ void weigh(float (&s)[kScores], const Rows<D>& rows, float scale,
                                      bool is_masked, int key, Seen seen) {
#pragma unroll
  for (int i = 0; i < kScores; i += 4) {
    const int query = i * 2 + threadIdx.x % 4 * 2;
    const float2 lse = *reinterpret_cast<const float2*>(&rows.lse[query]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[i + e] = ladder::ptx::exp2_approx(fmaf(s[i + e], scale, -(e % 2 == 0 ? lse.x : lse.y)));
      if (is_masked && key + e / 2 * 8 >= seen(query + e % 2)) s[i + e] = 0;
    }
  }
}

/// Turns the gradients of weights p into those of scores.
template <int D, int kScores>
__device__ __forceinline__ void make_gradients_of_scores(float (&ds)[kScores],
                                                         const float (&p)[kScores],
                                                         const Rows<D>& rows) {
#pragma unroll
  for (int i = 0; i < kScores; i += 4) {
    const int query = i * 2 + threadIdx.x % 4 * 2;
    const float2 delta = *reinterpret_cast<const float2*>(&rows.delta[query]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      ds[i + e] = p[i + e] * (ds[i + e] - (e % 2 == 0 ? delta.x : delta.y));
    }
  }
}

/// A warpgroup writes its 64 rows of keys, from `row` on, into a tile that wgmma reads.
template <class T, int kRows, int kColumns>
__device__ __forceinline__ void store_gradients(Tile<T, kRows, kColumns>& to, int row,
                                                const std::uint32_t (&words)[kColumns / 16][4]) {
  const int lane = threadIdx.x % 32, own = row + threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int i = 0; i < kColumns / 16; ++i) {
    ladder::ptx::stmatrix(to.chunk(own, i * 2 + lane / 16), words[i]);
  }
}

/// Word i of the lane that is number j of four becomes word j of number i.
__device__ __forceinline__ void transpose_words(std::uint32_t (&words)[4]) {
#pragma unroll
  for (int by = 1; by < 4; by *= 2) {
    const bool is_upper = (threadIdx.x & by) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & by) != 0) continue;
      std::uint32_t &lower = words[i], &upper = words[i + by];
      const std::uint32_t other = __shfl_xor_sync(0xffffffff, is_upper ? lower : upper, by);
      (is_upper ? lower : upper) = other;
    }
  }
}

/// Stores rows `row` and row + 8 of a thread's sums, as far as there are rows. Four lanes have two
/// each of eight columns that are neighbours; one of them stores all eight, 16 bytes.
template <class T, int kSums>
__device__ __forceinline__ void store_rows(T* to, std::int64_t pitch, int row, int rows,
                                           const float (&sums)[kSums], float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    T* const at = to + (row + half * 8) * pitch + threadIdx.x % 4 * 8;
#pragma unroll
    for (int i = 0; i < kSums; i += 16) {
      std::uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* const two = &sums[i + w * 4 + half * 2];
        words[w] = ladder::pack<T>(two[0] * scale, two[1] * scale);
      }
      transpose_words(words);
      if (row + half * 8 >= rows) continue;
      __stwb(reinterpret_cast<uint4*>(at + i * 2),  // an ordinary store; nvcc splits some of others
             make_uint4(words[0], words[1], words[2], words[3]));
    }
  }
}

}  // namespace attention_tiles

namespace attention_backward_parts {

/// v35: the workspace's Rows.
template <class T>
void launch_rows(const attention_backward::Args<T>& a, const attention_tiles::QueryTiles& tiles,
                 cudaStream_t stream);
extern template void launch_rows(const attention_backward::Args<ladder::half>&,
                                 const attention_tiles::QueryTiles&, cudaStream_t);
extern template void launch_rows(const attention_backward::Args<ladder::bfloat16>&,
                                 const attention_tiles::QueryTiles&, cudaStream_t);

/// v35: dq of its sums, times the scale.
template <class T>
void launch_round_dq(const attention_backward::Args<T>& a, const attention_tiles::QueryTiles& tiles,
                     cudaStream_t stream);
extern template void launch_round_dq(const attention_backward::Args<ladder::half>&,
                                     const attention_tiles::QueryTiles&, cudaStream_t);
extern template void launch_round_dq(const attention_backward::Args<ladder::bfloat16>&,
                                     const attention_tiles::QueryTiles&, cudaStream_t);

}  // namespace attention_backward_parts
