// Scaled dot-product attention. For every query row i of every head:
//
//   s[j] = (q[i] . k[j]) / sqrt(d)            for the keys j that query i sees
//   o[i] = sum over j of exp(s[j]) v[j] / sum over j of exp(s[j])
//   lse[i] = log(sum over j of exp(s[j]))     the log-sum-exp, which the gradients need
//
// A query that sees no key has o = 0 and lse = -inf. Several heads of queries may share a head of
// keys and values (grouped heads): head h of the queries has that of number h / (heads / kv_heads).
//
// Scores, exponentials and sums are fp32. What is multiplied with V on tensor cores, exp(s - max),
// is rounded to the element type before.
#pragma once

#include "device/kernel.hpp"

struct attention {
  static constexpr const char* family = "attention";
  static constexpr const char* op = "";
  static constexpr bool kCausal = false;

  struct Problem {
    int batch, heads, kv_heads, queries, keys, d;
    /// From 0 on: the sequences have different lengths, from this to `queries`, which is `keys` then.
    int shortest = -1;
    bool bshd = false;      ///< a position's heads lie side by side, not a head's positions
    bool top_left = false;  ///< how a causal mask is aligned
    /// Of a cache, which only decode reads. From 0 on: the sequences have different numbers of keys,
    /// from this to `keys`. And how many positions a page has; 0: there are no pages.
    int shortest_keys = -1, page = 0;

    bool has_cache() const { return shortest_keys >= 0 || page > 0; }
    bool has_lengths() const { return shortest >= 0; }
  };

  /// Of one operand, elements from a sequence, a head, a row to the next.
  struct Strides {
    std::int64_t batch, head, row;
  };

  /// Where sequences have different lengths they lie one behind the other, `batch` strides are 0, and
  /// sequence b has the rows of queries from query_starts[b] to query_starts[b + 1], those of keys
  /// from key_starts[b] on, keys_used[b] of them. The rows up to key_starts[b + 1] may hold anything.
  template <class T>
  struct Args {
    const T* q;                                 // [queries][d] of every head
    const T* k;                                 // [keys][d] of every head of keys
    const T* v;                                 // likewise
    T* o;                                       // as q
    float* lse;                                 // [queries] of every head
    Strides q_strides, k_strides, lse_strides;  // of q and o; of k and v; of lse
    int batch, heads, kv_heads, queries, keys, d;
    float scale;  // 1 / sqrt(d)
    bool top_left;
    std::int64_t all_queries, all_keys;          // rows of all sequences, of one head
    const std::int32_t* query_starts = nullptr;  // [batch + 1]
    const std::int32_t* key_starts = nullptr;    // [batch + 1]
    const std::int32_t* keys_used = nullptr;     // [batch]
    void* workspace = nullptr;
  };
};

/// Query i of m sees of n keys those up to key i + n - m: the last query sees all keys (bottom
/// right), or, where `top_left`, those up to key i.
struct attention_causal : attention {
  static constexpr const char* op = "causal";
  static constexpr bool kCausal = true;
};

/// The gradients of q, k and v, of a function whose gradient of o is d_o. With p[i][j] =
/// exp(s[i][j] - lse[i]) for the keys j that query i sees, and 0 for others:
///
///   delta[i] = d_o[i] . o[i], which is the sum over j of p[i][j] (d_o[i] . v[j])
///   ds[i][j] = p[i][j] (d_o[i] . v[j] - delta[i])
///   dq[i] = sum over j of ds[i][j] k[j] / sqrt(d)
///   dk[j] = sum over i of ds[i][j] q[i] / sqrt(d)
///   dv[j] = sum over i of p[i][j] d_o[i]
///
/// Heads of queries that share a head of keys and values add up in its dk and dv, in fp32. A query
/// that sees no key has dq = 0, a key that no query sees dk = dv = 0, and so have the rows behind
/// those that are used: what comes after adds over all rows.
///
/// q, k, v, o and lse are what attention reads and writes, of the same scores. p and ds are fp32;
/// what is multiplied on tensor cores is rounded to the element type before.
struct attention_backward : attention {
  static constexpr const char* op = "backward";

  template <class T>
  struct Args : attention::Args<T> {  // whose o and lse are read
    const T* d_o;                     // as q
    T* dq;                            // as q
    T *dk, *dv;                       // as k
  };
};

struct attention_causal_backward : attention_backward {
  static constexpr const char* op = "causal_backward";
  static constexpr bool kCausal = true;
};
