// A head of a sequence: where its rows lie and how many there are.
#pragma once

#include "attention.hpp"

#include <type_traits>

template <class T>
struct Head {
  const T *q, *k, *v;
  T* o;
  float* lse;
  std::int64_t q_pitch, k_pitch;  // elements from a row to the next
  int queries, keys;
  int diagonal;  // of a causal mask: query i sees keys up to i + diagonal

  __device__ Head(const attention::Args<T>& a, int head, int sequence)
      : q_pitch(a.q_strides.row), k_pitch(a.k_strides.row), queries(a.queries), keys(a.keys) {
    const int kv_head = head / (a.heads / a.kv_heads);
    std::int64_t q_at = sequence * a.q_strides.batch + head * a.q_strides.head;
    std::int64_t k_at = sequence * a.k_strides.batch + kv_head * a.k_strides.head;
    std::int64_t lse_at = sequence * a.lse_strides.batch + head * a.lse_strides.head;
    if (a.query_starts != nullptr) {
      const int first = a.query_starts[sequence];
      q_at += first * q_pitch;
      lse_at += first;
      k_at += a.key_starts[sequence] * k_pitch;
      queries = a.query_starts[sequence + 1] - first;
      keys = a.keys_used[sequence];
    }
    q = a.q + q_at;
    o = a.o + q_at;
    k = a.k + k_at;
    v = a.v + k_at;
    lse = a.lse + lse_at;
    diagonal = a.top_left ? 0 : keys - queries;
  }

  /// How many keys a query sees: the first ones.
  template <class Op>
  __device__ int visible(int query) const {
    if constexpr (!Op::kCausal) return keys;
    return max(0, min(keys, query + diagonal + 1));
  }
};

/// Calls f with the head size as a std::integral_constant.
template <class F>
void with_head_size(int d, F f) {
  d == 64 ? f(std::integral_constant<int, 64>{}) : f(std::integral_constant<int, 128>{});
}

/// A block for each tile of `rows` queries of each head of each sequence.
template <class T>
dim3 query_tiles(const attention::Args<T>& a, int rows) {
  return dim3(static_cast<unsigned>(ladder::ceil_div(a.queries, rows)),
              static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch));
}
