// What the operations of attention have in common towards the harness. Included by family.cpp,
// backward.cpp and decode.cpp.
#pragma once

#include "attention.hpp"
#include "harness/family.hpp"
#include "layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attention_contract {

using attention_layout::Layout;

// --- Inputs -------------------------------------------------------------------------------------

// Scores of up to 8 or so: few keys have nearly all of the weight.
// Scores up to thousands that climb and descend from one tile of keys to the next.
inline double climbing_value(std::uint64_t index, std::uint64_t bits, const ladder::Array& array) {
  if (array.name == "k") return ladder::climbing(index, array, 512) + ladder::uniform(bits);
  return array.name == "q" ? 0.5 + 0.5 * ladder::uniform(bits) : ladder::uniform(bits);
}

// Scores of up to a hundred or so: from one tile of keys to the next a row's maximum grows by up to
// 2^80, as weights count, and mostly by more than what fits f16.
inline double steep_value(std::uint64_t bits, const ladder::Array& array) {
  return (array.name == "q" ? 96 : 1) * ladder::uniform(bits);
}

// Scores of several hundred, whose exponentials overflow where the maximum is not subtracted.
inline double large_value(std::uint64_t bits, const ladder::Array& array) {
  return (array.name == "q" || array.name == "k" ? 64 : 1) * ladder::uniform(bits);
}

// All weights are the same.
inline double equal_value(std::uint64_t bits, const ladder::Array& array) {
  return array.name == "q" ? 0 : ladder::uniform(bits);
}

template <class Op>
struct Common : Op {
  using Problem = attention::Problem;
  static constexpr int kMostRows = 1 << 28;  // which may be counted beyond their end in an int

  /// HEADS:KV_HEADS are heads in groups, SHORTEST..QUERIES sequences of different lengths; of decode
  /// KEYS are those of a cache, likewise, which may lie in pages.
  static std::vector<ladder::Field> fields() {
    constexpr int kMostBlocks = 65535;  // of a grid along y and z
    using ladder::size;
    return {
        size<&Problem::batch>("BATCH").to(kMostBlocks),
        size<&Problem::heads>("HEADS").to(kMostBlocks),
        size<&Problem::kv_heads>("KV_HEADS").to(kMostBlocks).after(":").unless<&Problem::heads>(),
        size<&Problem::shortest>("SHORTEST").to(kMostRows).unless(-1).behind_it(".."),
        size<&Problem::queries>("QUERIES").to(kMostRows),
        size<&Problem::shortest_keys>("SHORTEST_KEYS")
            .to(kMostRows)
            .after(":")
            .unless(-1)
            .behind_it(".."),
        size<&Problem::keys>("KEYS").to(kMostRows).after(":").unless<&Problem::queries>(),
        size<&Problem::d>("D").among({64, 128}),
        ladder::flag<&Problem::bshd>("@bshd"),
        ladder::flag<&Problem::top_left>("@top_left"),
        size<&Problem::page>("@page").among({16, 64}).unless(0)};
  }
  static bool valid(const Problem& p) { return goes_together(p) && !p.has_cache(); }

  static Problem problem(const char* text) { return ladder::parsed<Problem>(fields(), text); }

  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return problems({"1x2x128x64", "1x2:1x33:70x128@bshd"});
    return problems({"4x16x4096x128", "1x16x16384x128", "2x16x8192x128", "2x32:8x8192x128",
                     "32x12x1024x64", "4x32x4096x64", "16x16:4x37..8192x128@bshd"});
  }
  static std::vector<ladder::InputSet> input_sets() {
    return {{"uniform", ladder::uniform_value},
            {.name = "climbing", .at = climbing_value},
            // cuDNN takes bf16's subnormal gradients for zero.
            {.name = "steep", .value = steep_value, .gpu_exception = "v00_cudnn"},
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

  static std::vector<ladder::Demand> demands(const Problem&, ladder::DType dtype,
                                             const ladder::Cost& cost) {
    return {{{"tensor", dtype}, cost.flops}};
  }

  /// Makes the lengths. The rows behind the keys that are used hold NaNs, which nobody may see.
  template <class T>
  static void arrange_inputs(const Problem& p, std::uint64_t, ladder::Operands of) {
    if (!p.has_lengths()) return;
    const Layout at(p);
    T *const k = of["k"], *const v = of["v"];
    std::int32_t *const query_starts = of["query_starts"], *const key_starts = of["key_starts"],
                        *const keys_used = of["keys_used"];
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

  template <class T>
  static attention::Args<T> bind(const Problem& p, ladder::Operands of) {
    const Layout at(p);
    attention::Args<T> a{.q = of["q"],
                         .k = of["k"],
                         .v = of["v"],
                         .o = of["o"],
                         .lse = of["lse"],
                         .q_strides = at.q_strides(),
                         .k_strides = at.k_strides(),
                         .lse_strides = at.lse_strides(),
                         .batch = p.batch,
                         .heads = p.heads,
                         .kv_heads = p.kv_heads,
                         .queries = p.queries,
                         .keys = p.keys,
                         .d = p.d,
                         .scale = 1 / std::sqrt(static_cast<float>(p.d)),
                         .top_left = p.top_left,
                         .all_queries = at.all_queries(),
                         .all_keys = at.all_keys()};
    if (p.has_lengths()) {
      a.query_starts = of["query_starts"];
      a.key_starts = of["key_starts"];
      a.keys_used = of["keys_used"];
    }
    return a;
  }

 protected:
  static std::vector<Problem> problems(std::initializer_list<const char*> texts) {
    std::vector<Problem> all;
    for (const char* text : texts) all.push_back(problem(text));
    return all;
  }

  /// Whether a problem of any operation is one.
  static bool goes_together(const Problem& p) {
    const bool groups = p.kv_heads > 0 && p.heads > 0 && p.heads % p.kv_heads == 0;
    const bool lengths = !p.has_lengths() || (p.keys == p.queries && p.shortest <= p.queries);
    const bool fits =
        !(p.has_lengths() || p.has_cache()) || p.keys * std::int64_t{p.batch} <= kMostRows;
    return groups && lengths && fits && p.shortest_keys <= p.keys;
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
    arrays.push_back(ladder::input<std::int32_t>("query_starts", p.batch + 1).tied());
    arrays.push_back(ladder::input<std::int32_t>("key_starts", p.batch + 1).tied());
    arrays.push_back(ladder::input<std::int32_t>("keys_used", p.batch).tied());
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
