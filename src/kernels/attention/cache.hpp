// A head of keys of a sequence in the cache, and the queries that see it.
#pragma once

#include "decode.hpp"

template <class T>
struct Cache {
  const T *k, *v;
  std::int64_t pitch;  // elements from a position to the next, in a page or where there are none
  const std::int32_t* pages;
  int page_bits, keys;

  __device__ Cache(const attention_decode::Args<T>& a, int kv_head, int sequence)
      : Cache(a, kv_head, sequence, a.keys_of(sequence)) {}
  __device__ Cache(const attention_decode::Args<T>& a, int kv_head, int sequence, int length)
      : pitch(a.k_strides.row),
        pages(a.block_table + std::int64_t{sequence} * a.table_pitch),
        page_bits(a.page_bits),
        keys(length) {
    const std::int64_t first =
        (page_bits == 0 ? sequence * a.k_strides.batch : 0) + kv_head * a.k_strides.head;
    k = a.k + first;
    v = a.v + first;
  }

  /// The page that a key lies on, as the block table says.
  __device__ std::int32_t page_of(int key) const {
    return page_bits == 0 ? 0 : pages[key >> page_bits];
  }
  /// Where the row of a key begins, from k and v on. Of the positions up to the next multiple of 16
  /// the rows follow: a page is no shorter.
  __device__ std::int64_t at(int key, std::int64_t page) const {
    if (page_bits == 0) return key * pitch;
    return ((page << page_bits) + (key & ((1 << page_bits) - 1))) * pitch;
  }
  __device__ std::int64_t at(int key) const { return at(key, page_of(key)); }
};

/// The queries of all heads that share a head of keys, as rows: row r is query r / group of head
/// r % group.
template <class T>
struct Queries {
  const T* q;
  T* o;
  float* lse;
  attention::Strides q_by, lse_by;
  int group, rows, keys, diagonal;

  __device__ Queries(const attention_decode::Args<T>& a, int kv_head, int sequence, int length)
      : q_by(a.q_strides),
        lse_by(a.lse_strides),
        group(a.heads / a.kv_heads),
        rows(group * a.queries),
        keys(length),
        diagonal(a.all_seen ? length : length - a.queries) {
    const int head = kv_head * group;
    const std::int64_t at = sequence * q_by.batch + head * q_by.head;
    q = a.q + at;
    o = a.o + at;
    lse = a.lse + sequence * lse_by.batch + head * lse_by.head;
  }

  __device__ std::int64_t at(int row) const {
    return row / group * q_by.row + row % group * q_by.head;
  }
  __device__ float* lse_of(int row) const {
    return lse + row / group * lse_by.row + row % group * lse_by.head;
  }
  /// How many keys a row sees: the first ones.
  __device__ int visible(int row) const { return max(0, min(keys, row / group + diagonal + 1)); }
};
