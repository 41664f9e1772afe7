// Decoding: the last positions of each sequence, a few new queries, see all keys that the sequence has
// in a cache: query i of m those up to key i + n - m of n. What the cache holds behind the n keys is
// no number, or memory that does not belong to it.
//
// The cache of keys, and that of values, lies in one piece,
//
//   [batch][kv_heads][capacity][d]       or, of bshd, [batch][capacity][kv_heads][d]
//
// or in pages of 2^page_bits positions, [pages][page][kv_heads][d]: position j of sequence b lies on
// page block_table[b][j / page]. The pages of a sequence lie anywhere.
#pragma once

#include "attention.hpp"

struct attention_decode : attention {
  static constexpr const char* op = "decode";

  template <class T>
  struct Args {
    const T* q;  // [queries][d] of every head
    const T* k;  // the cache
    const T* v;  // likewise
    T* o;        // as q
    float* lse;  // [queries] of every head
    Strides q_strides, k_strides,
        lse_strides;  // of q and o; of k and v (batch: without pages); of lse
    int batch, heads, kv_heads, queries, keys;  // keys: of the longest sequence
    int d;
    float scale;                                // 1 / sqrt(d)
    const std::int32_t* keys_used = nullptr;    // [batch]; where there is none, all have `keys`
    bool lengths_differ = false;                // so may they
    bool all_seen = false;                      // each query sees all keys
    const std::int32_t* block_table = nullptr;  // [batch][table_pitch], of pages
    int page_bits = 0, table_pitch = 0;
    void* workspace = nullptr;

    __device__ int keys_of(int sequence) const {
      return keys_used == nullptr ? keys : keys_used[sequence];
    }
  };
};
