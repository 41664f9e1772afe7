// A head of a sequence with the gradients of its rows, and where its rows' part of a workspace is.
#pragma once

#include "device/vector.hpp"
#include "head.hpp"

template <class T>
struct BackwardHead : Head<T> {
  const T* d_o;
  T *dq, *dk, *dv;
  std::int64_t first_row;  // of its queries, of those of all heads and sequences
  int key_rows;            // of dk and dv; those behind the first `keys` are unused

  __device__ BackwardHead(const attention_backward::Args<T>& a, int head, int sequence)
      : Head<T>(a, head, sequence), key_rows(a.keys) {
    const std::int64_t q_at = this->q - a.q, k_at = this->k - a.k;
    d_o = a.d_o + q_at;
    dq = a.dq + q_at;
    dk = a.dk + k_at;
    dv = a.dv + k_at;
    first_row = head * a.all_queries;
    if (a.query_starts != nullptr) {
      first_row += a.query_starts[sequence];
      key_rows = a.key_starts[sequence + 1] - a.key_starts[sequence];
    } else {
      first_row += std::int64_t{sequence} * a.queries;
    }
  }

  /// The unused rows of dk and dv become zero; `blocks` blocks share them, this is number `block`.
  __device__ void clear_unused_keys(int d, unsigned block, unsigned blocks) const {
    constexpr int kChunk = ladder::Vec128<T>::size;
    const std::int64_t size = std::int64_t{key_rows - this->keys} * (d / kChunk);
    std::int64_t i = std::int64_t{block} * blockDim.x + threadIdx.x;
    for (; i < size; i += std::int64_t{blocks} * blockDim.x) {
      const std::int64_t row = this->keys + i / (d / kChunk);
      const std::int64_t at = row * this->k_pitch + i % (d / kChunk) * kChunk;
      ladder::Vec128<T>{}.store(dk + at);
      ladder::Vec128<T>{}.store(dv + at);
    }
  }
  /// The blocks along the grid's x do.
  __device__ void clear_unused_keys(int d, unsigned block) const {
    clear_unused_keys(d, block, gridDim.x);
  }
};

/// A block for each tile of `rows` keys of each head of keys of each sequence, at least one, since
/// where there are no keys there may be unused rows.
template <class T>
dim3 key_tiles(const attention_backward::Args<T>& a, int rows) {
  return dim3(static_cast<unsigned>(max(1, ladder::ceil_div(a.keys, rows))),
              static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.batch));
}
