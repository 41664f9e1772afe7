#include "harness/family.hpp"
#include "attention.hpp"
#include "problem.hpp"
#include "reference.hpp"

#include <limits>

namespace {

using attention_problem::Layout;

// --- Inputs: 0 is q, 1 is k, 2 is v -------------------------------------------------------------

// Scores of up to 8 or so: few keys have nearly all of the weight.
double peaked_value(std::uint64_t bits, int input) {
  return (input == 0 ? 8 : 1) * ladder::uniform_value(bits, input);
}

// Scores of several hundred, whose exponentials overflow where the maximum is not subtracted.
double large_value(std::uint64_t bits, int input) {
  return (input < 2 ? 64 : 1) * ladder::uniform_value(bits, input);
}

// All weights are the same.
double equal_value(std::uint64_t bits, int input) {
  return input == 0 ? 0 : ladder::uniform_value(bits, input);
}

template <class Op>
struct Contract : Op {
  using Problem = attention::Problem;
  static constexpr const char* problem_help = attention_problem::kHelp;

  static std::optional<Problem> parse(std::string_view text) {
    return attention_problem::parse(text);
  }
  static std::string text(const Problem& p) { return attention_problem::text(p); }

  // Tiles that are full, and by one row more or less not; heads in groups; more queries than keys,
  // where a causal mask hides all keys of some.
  static std::vector<Problem> test_problems() {
    return problems({"0x1x5x64", "1x1x0:5x64", "1x2x3:0x64", "1x1x1x64", "1x2:1x31:33x128",
                     "2x3x64x64", "1x1x65:129x128", "1x4:2x100:70x64@bshd", "1x1x1:257x128",
                     "1x2x129:127x64@top_left", "2x2x70:200x128@bshd@top_left", "1x1x300:40x64",
                     "3x2:1x0..70x64", "5x2x1..130x128@bshd"});
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) return problems({"1x2x128x64", "1x2:1x100:131x128@bshd"});
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

  // A product with each key that is seen, and one with its value.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const Layout at(p);
    double pairs = 0;
    for (int b = 0; b < p.batch; ++b) pairs += pairs_seen(at.queries(b), at.keys(b), p.top_left);
    const double size = static_cast<double>(ladder::size_of(dtype)), d = p.d;
    const double rows = p.heads * static_cast<double>(at.all_queries());
    return {
        .flops = 4 * d * p.heads * pairs,
        .bytes_read = (rows + 2.0 * p.kv_heads * static_cast<double>(at.keys_used())) * d * size,
        .bytes_written = rows * (d * size + sizeof(float))};
  }
  static ladder::ComputeRoof compute_roof(ladder::DType dtype) {
    return {ladder::ComputeRoof::Unit::tensor, dtype, 1};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    const Layout at(p);
    std::vector<ladder::Array> all{ladder::input<T>("q", at.q_size()),
                                   ladder::input<T>("k", at.k_size()),
                                   ladder::input<T>("v", at.k_size())};
    if (p.has_lengths()) {
      const auto batch = static_cast<std::size_t>(p.batch);
      all.push_back(ladder::input<std::int32_t>("query_starts", batch + 1));
      all.push_back(ladder::input<std::int32_t>("key_starts", batch + 1));
      all.push_back(ladder::input<std::int32_t>("keys_used", batch));
    }
    all.push_back(ladder::output<T>("o", at.q_size(), attention_reference::tolerance<T>()));
    all.push_back(ladder::output<float>("lse", at.lse_size(), {.scaled = 1}));
    return all;
  }

  /// The rows behind the keys that are used hold NaNs, which nobody may see.
  template <class T>
  static void arrange_inputs(const Problem& p, std::uint64_t, ladder::Operands arrays) {
    if (!p.has_lengths()) return;
    const Layout at(p);
    T *const k = arrays[1], *const v = arrays[2];
    std::int32_t *const query_starts = arrays[3], *const key_starts = arrays[4],
                        *const keys_used = arrays[5];
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
  static attention::Args<T> bind(const Problem& p, ladder::Operands arrays) {
    const Layout at(p);
    const std::size_t outputs = arrays.size() - 2;
    attention::Args<T> a{.q = arrays[0],
                         .k = arrays[1],
                         .v = arrays[2],
                         .o = arrays[outputs],
                         .lse = arrays[outputs + 1],
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
                         .top_left = p.top_left};
    if (p.has_lengths()) {
      a.query_starts = arrays[3];
      a.key_starts = arrays[4];
      a.keys_used = arrays[5];
    }
    return a;
  }

  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands arrays) {
    return attention_reference::forward<T>(p, Op::kCausal, arrays[0], arrays[1], arrays[2]);
  }

 private:
  static std::vector<Problem> problems(std::initializer_list<const char*> texts) {
    std::vector<Problem> all;
    for (const char* text : texts) all.push_back(parse(text).value());
    return all;
  }

  /// How many keys all queries of a sequence see together.
  static double pairs_seen(int queries, int keys, bool top_left) {
    const double n = queries, m = keys;
    if (!Op::kCausal) return n * m;
    const double first = top_left ? 1 : m - n + 1;        // what the first query sees, at least 0
    const double none = std::clamp(1 - first, 0.0, n);    // so many see nothing,
    const double fewer = std::clamp(m - first, none, n);  // so many less than all
    return (fewer - none) * (2 * first + none + fewer - 1) / 2 + (n - fewer) * m;
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::RegisterFamily<Contract<attention>, half, bfloat16> plain;
const ladder::RegisterFamily<Contract<attention_causal>, half, bfloat16> causal;

}  // namespace
