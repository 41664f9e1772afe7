// A sequence's keys in parts, one for a block, and their results in the workspace.
//
// How a sequence is cut depends on its own length alone: parts of a multiple of 64 keys, as few keys
// as are not more than 32 parts. So are the bits of its result; what else is in the batch, and the GPU,
// have no part in them.
#pragma once

#include "group_rows.hpp"

template <class T>
struct Splits {
  static constexpr int kMost = 32, kLeastKeys = 64;

  float* sums;          // [row][split][d]
  float2* max_and_sum;  // [row][split]
  int splits;           // of the longest sequence or more: where a row's begin

  /// How many keys a part has.
  __host__ __device__ static int keys_of_part(int keys) {
    return ladder::ceil_div(keys, kMost * kLeastKeys) * kLeastKeys;
  }
  /// Of a sequence of `keys` keys and of all shorter ones the most parts.
  __host__ __device__ static int most_of(int keys) {
    return min(kMost, ladder::ceil_div(keys, kLeastKeys));
  }
  static std::size_t bytes(const attention_decode::Args<T>& a) {
    return rows(a) * static_cast<std::size_t>(most_of(a.keys)) *
           (static_cast<std::size_t>(a.d) * sizeof(float) + sizeof(float2));
  }

  __device__ explicit Splits(const attention_decode::Args<T>& a)
      : sums(static_cast<float*>(a.workspace)), splits(most_of(a.keys)) {
    const std::int64_t parts = std::int64_t{a.batch} * a.heads * a.queries * splits;
    max_and_sum = reinterpret_cast<float2*>(sums + parts * a.d);
  }

  /// The number of a part of a row of a head of keys.
  __device__ std::int64_t part(const attention_decode::Args<T>& a, int sequence, int kv_head,
                               int row, int split) const {
    const int of_head = a.heads / a.kv_heads * a.queries;
    return ((std::int64_t{sequence} * a.kv_heads + kv_head) * of_head + row) * splits + split;
  }

 private:
  static std::size_t rows(const attention_decode::Args<T>& a) {
    return static_cast<std::size_t>(a.batch) * static_cast<std::size_t>(a.heads) *
           static_cast<std::size_t>(a.queries);
  }
};

/// Writes what a block has of a row.
template <class T, int D>
__device__ void store_part(const Row<D>& row, const Splits<T>& to, std::int64_t part, int lane) {
#pragma unroll
  for (int c = 0; c < D / 64; ++c) {
    *reinterpret_cast<float2*>(to.sums + part * D + lane * 2 + c * 64) = row.sums[c];
  }
  if (lane == 0) to.max_and_sum[part] = make_float2(row.max, row.weights);
}

/// A row's result of its parts; the calling warp's.
template <class T, int D>
__device__ void combine_parts(const attention_decode::Args<T>& a, int sequence, int kv_head,
                              int row, int lane) {
  const int keys = a.keys_used[sequence];
  const Splits<T> from(a);
  const std::int64_t first = from.part(a, sequence, kv_head, row, 0);
  const int parts = keys > 0 ? ladder::ceil_div(keys, Splits<T>::keys_of_part(keys)) : 0;
  Row<D> whole;
  whole.add_up(
      parts, [&](int i) { return from.max_and_sum[first + i]; },
      [&](int i, int column) {
        return *reinterpret_cast<const float2*>(from.sums + (first + i) * D + column);
      },
      lane);
  whole.store(Queries<T>(a, kv_head, sequence, keys), row, lane);
}
