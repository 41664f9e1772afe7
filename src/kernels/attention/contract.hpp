// What the operations of attention have in common towards the harness. Included by family.cpp,
// backward.cpp and decode.cpp.
#pragma once

#include "attention.hpp"
#include "harness/family.hpp"
#include "problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention_contract {

using attention_problem::Layout;

// --- Inputs: 0 is q, 1 is k, 2 is v -------------------------------------------------------------

// Scores of up to 8 or so: few keys have nearly all of the weight.
inline double peaked_value(std::uint64_t bits, int input) {
  return (input == 0 ? 8 : 1) * ladder::uniform_value(bits, input);
}

// Scores of several hundred, whose exponentials overflow where the maximum is not subtracted.
inline double large_value(std::uint64_t bits, int input) {
  return (input < 2 ? 64 : 1) * ladder::uniform_value(bits, input);
}

// All weights are the same.
inline double equal_value(std::uint64_t bits, int input) {
  return input == 0 ? 0 : ladder::uniform_value(bits, input);
}

template <class Op>
struct Common : Op {
  using Problem = attention::Problem;
  static constexpr const char* problem_help = attention_problem::kHelp;

  static std::optional<Problem> parse(std::string_view text) {
    return attention_problem::parse(text);
  }
  static std::string text(const Problem& p) { return attention_problem::text(p); }

  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return problems({"1x2x128x64", "1x2:1x33:70x128@bshd"});
    return problems({"4x16x4096x128", "1x16x16384x128", "2x16x8192x128", "2x32:8x8192x128",
                     "32x12x1024x64", "4x32x4096x64", "16x16:4x37..8192x128@bshd"});
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {"peaked", peaked_value},
            {"large", large_value},
            {"equal", equal_value}};
  }

  /// Fewer sequences, heads and rows; tiles end as before.
  static Problem smaller(Problem p) {
    const int group = p.heads / std::max(p.kv_heads, 1);
    p.batch = std::min(p.batch, p.has_lengths() ? 4 : 1);
    p.kv_heads = std::min(p.kv_heads, 2);
    p.heads = p.kv_heads * group;
    p.queries = static_cast<int>(ladder::shortened(p.queries, 512));
    p.keys = static_cast<int>(ladder::shortened(p.keys, 512));
    p.shortest = std::min(p.shortest, p.queries);
    return p;
  }

  static ladder::ComputeRoof compute_roof(ladder::DType dtype) {
    return {ladder::ComputeRoof::Unit::tensor, dtype, 1};
  }

 protected:
  static std::vector<Problem> problems(std::initializer_list<const char*> texts) {
    std::vector<Problem> all;
    for (const char* text : texts) {
      all.push_back(attention_problem::parse_any(text).value());
    }
    return all;
  }

  /// How many keys all queries of a head see together, of all sequences.
  static double pairs_seen(const Problem& p) {
    const Layout at(p);
    double pairs = 0;
    for (int b = 0; b < p.batch; ++b) pairs += pairs_seen(at.queries(b), at.keys(b), p.top_left);
    return pairs;
  }

  /// Where sequences have different lengths, three arrays say so, behind the other inputs.
  static void append_lengths(const Problem& p, std::vector<ladder::Array>& arrays) {
    if (!p.has_lengths()) return;
    const auto batch = static_cast<std::size_t>(p.batch);
    arrays.push_back(ladder::input<std::int32_t>("query_starts", batch + 1));
    arrays.push_back(ladder::input<std::int32_t>("key_starts", batch + 1));
    arrays.push_back(ladder::input<std::int32_t>("keys_used", batch));
  }

  /// Makes them. The rows behind the keys that are used hold NaNs, which nobody may see.
  template <class T>
  static void arrange_lengths(const Problem& p, T* k, T* v, ladder::Operands lengths) {
    const Layout at(p);
    std::int32_t *const query_starts = lengths[0], *const key_starts = lengths[1],
                        *const keys_used = lengths[2];
    for (int b = 0; b < p.batch; ++b) {
      query_starts[b] = at.query_start(b);
      key_starts[b] = at.key_start(b);
      keys_used[b] = at.keys(b);
      for (int h = 0; h < p.kv_heads; ++h) {
        for (int row = at.keys(b); row < at.key_start(b + 1) - at.key_start(b); ++row) {
          const std::size_t first = at.key_row(b, h, row);
          std::fill_n(k + first, p.d, T(std::numeric_limits<float>::quiet_NaN()));
          std::fill_n(v + first, p.d, T(std::numeric_limits<float>::quiet_NaN()));
        }
      }
    }
    query_starts[p.batch] = at.query_start(p.batch);
    key_starts[p.batch] = at.key_start(p.batch);
  }

  /// All but o and lse. `lengths` are the arrays from those of append_lengths on.
  template <class T>
  static void bind_common(const Problem& p, ladder::Operands arrays, ladder::Operands lengths,
                          attention::Args<T>& a) {
    const Layout at(p);
    a.q = arrays[0];
    a.k = arrays[1];
    a.v = arrays[2];
    a.q_strides = at.q_strides();
    a.k_strides = at.k_strides();
    a.lse_strides = at.lse_strides();
    a.batch = p.batch;
    a.heads = p.heads;
    a.kv_heads = p.kv_heads;
    a.queries = p.queries;
    a.keys = p.keys;
    a.d = p.d;
    a.scale = 1 / std::sqrt(static_cast<float>(p.d));
    a.top_left = p.top_left;
    a.all_queries = at.all_queries();
    a.all_keys = at.all_keys();
    if (p.has_lengths()) {
      a.query_starts = lengths[0];
      a.key_starts = lengths[1];
      a.keys_used = lengths[2];
    }
  }

 private:
  /// Of one sequence.
  static double pairs_seen(int queries, int keys, bool top_left) {
    const double n = queries, m = keys;
    if (!Op::kCausal) return n * m;
    const double first = top_left ? 1 : m - n + 1;        // what the first query sees, at least 0
    const double none = std::clamp(1 - first, 0.0, n);    // so many see nothing,
    const double fewer = std::clamp(m - first, none, n);  // so many less than all
    return (fewer - none) * (2 * first + none + fewer - 1) / 2 + (n - fewer) * m;
  }
};

}  // namespace attention_contract
