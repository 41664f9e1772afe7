#include "decode.hpp"
#include "contract.hpp"
#include "harness/family.hpp"
#include "layout.hpp"
#include "reference.hpp"

#include <limits>

namespace {

using attention_layout::Layout;

constexpr int kMostQueries = 16;

/// Where the rows of a cache lie, in elements.
class CacheLayout {
 public:
  static constexpr int kUnused = 3;      ///< positions behind the longest sequence's
  static constexpr int kSparePages = 2;  ///< that no sequence has

  explicit CacheLayout(const attention::Problem& p)
      : p_(p),
        lengths_({.batch = p.batch,
                  .heads = 1,
                  .kv_heads = 1,
                  .queries = p.keys,
                  .keys = p.keys,
                  .d = p.d,
                  .shortest = p.shortest_keys}) {}

  int keys(int sequence) const { return lengths_.keys(sequence); }
  std::int64_t keys_used() const { return lengths_.keys_used(); }

  int pages_of(int sequence) const { return ladder::ceil_div(keys(sequence), p_.page); }
  /// Of the block table, whose entries behind those of the longest sequence's pages are no page.
  int table_pitch() const { return p_.page > 0 ? ladder::ceil_div(p_.keys, p_.page) + 1 : 0; }
  int pages() const {
    int all = kSparePages;
    for (int b = 0; b < p_.batch; ++b) all += pages_of(b);
    return all;
  }
  int positions_of_piece() const { return p_.keys + kUnused; }

  std::size_t size() const {
    const std::int64_t positions = p_.page > 0 ? std::int64_t{pages()} * p_.page
                                               : std::int64_t{p_.batch} * positions_of_piece();
    return static_cast<std::size_t>(positions * p_.kv_heads * p_.d);
  }
  attention::Strides strides() const {
    const std::int64_t row = std::int64_t{p_.kv_heads} * p_.d;
    const std::int64_t batch = positions_of_piece() * row;
    if (p_.page > 0) return {0, p_.d, row};
    if (p_.bshd) return {batch, p_.d, row};
    return {batch, std::int64_t{positions_of_piece()} * p_.d, p_.d};
  }

  /// Of any position that a sequence's pages or its part of the piece have.
  std::size_t row(int sequence, int head, int key, const std::int32_t* table) const {
    const attention::Strides by = strides();
    std::int64_t position = key;
    if (p_.page > 0) {
      const std::int64_t page = table[std::int64_t{sequence} * table_pitch() + key / p_.page];
      position = page * p_.page + key % p_.page;
    }
    return static_cast<std::size_t>(sequence * by.batch + head * by.head + position * by.row);
  }

 private:
  attention::Problem p_;
  Layout lengths_;
};

struct Contract : attention_contract::Common<attention_decode> {
  static bool valid(const Problem& p) {
    const std::int64_t positions = std::int64_t{p.batch} * (p.keys + 64);
    return goes_together(p) && !p.has_lengths() && !p.top_left && p.queries <= kMostQueries &&
           positions <= kMostRows;
  }

  // No key, one, pages that are full, and with one key more or less; rows that are fewer than a
  // fragment has, as many and more; more queries than keys.
  static std::vector<Problem> test_problems() {
    return problems({"0x2x1:5x64", "1x2x0:5x64", "2x1x1:0x64", "1x2x1:1x128",
                     "1x4:1x1:64x64@page16", "1x4:2x1:65x64@page64", "1x2:1x2:63x128@bshd",
                     "2x3:1x5:130x64", "1x8:1x3:81x64@page16", "1x1x16:200x64", "1x2x5:3x64@page16",
                     "3x2:1x1:0..300x64", "5x2:1x2:0..130x64@page16",
                     "4x4:2x1:1..193x128@bshd@page64", "6x4x1:0..1x64@page16"});
  }
  static std::vector<Problem> bench_problems(ladder::Backend backend) {
    if (backend == ladder::Backend::host) {
      return problems({"1x8:2x1:320x128", "3x8:2x1:37..300x128@page16"});
    }
    return problems({"1x32:8x1:1024x128", "1x32:8x1:4096x128", "1x32:8x1:32768x128",
                     "16x32:8x1:1024x128", "16x32:8x1:4096x128", "16x32:8x1:32768x128@page64",
                     "64x32:8x1:1024x128@page16", "64x32:8x1:4096x128", "64x32:8x1:4096x128@page16",
                     "64x32:8x1:4096x128@page64", "64x32:8x4:4096x128@page64",
                     "64x32:8x1:37..8192x128", "64x32:8x1:37..8192x128@page16"});
  }

  /// Fewer sequences, heads and keys; pages end as before.
  static Problem smaller(Problem p) {
    const int group = p.heads / std::max(p.kv_heads, 1);
    p.batch = std::min(p.batch, 4);
    p.kv_heads = std::min(p.kv_heads, 2);
    p.heads = p.kv_heads * group;
    p.keys = static_cast<int>(ladder::shortened(p.keys, 1024));
    p.shortest_keys = std::min(p.shortest_keys, p.keys);
    return p;
  }

  static const char* best(const Problem&) { return "v56_"; }

  // A product with each key that is seen, and one with its value.
  static ladder::Cost cost(const Problem& p, ladder::DType dtype) {
    const CacheLayout at(p);
    double pairs = 0;
    for (int b = 0; b < p.batch; ++b) {
      for (int i = 0; i < p.queries; ++i) pairs += std::max(0, at.keys(b) - i);
    }
    const double d = p.d;
    const auto rows = static_cast<double>(Layout(p).lse_size());
    const double of_cache = 2.0 * p.kv_heads * static_cast<double>(at.keys_used());
    return {.flops = 4 * d * p.heads * pairs,
            .bytes_read = ladder::bytes_of(dtype, (rows + of_cache) * d),
            .bytes_written = ladder::bytes_of(dtype, rows * d) + rows * sizeof(float)};
  }

  template <class T>
  static std::vector<ladder::Array> arrays(const Problem& p) {
    const Layout of_queries(p);
    const CacheLayout at(p);
    std::vector<ladder::Array> all{
        ladder::input<T>("q", of_queries.q_size()), ladder::input<T>("k", at.size()),
        ladder::input<T>("v", at.size()), ladder::input<std::int32_t>("keys_used", p.batch).tied()};
    if (p.page > 0) {
      all.push_back(ladder::input<std::int32_t>("block_table", {p.batch, at.table_pitch()}).tied());
    }
    all.push_back(ladder::output<T>("o", of_queries.q_size(), attention_reference::tolerance<T>()));
    all.push_back(ladder::output<float>("lse", of_queries.lse_size(), {.scaled = 1}));
    return all;
  }

  /// What lies behind the keys that are used, and on pages that nobody has, are NaNs. Entries of the
  /// table behind those that are used are no pages.
  template <class T>
  static void arrange_inputs(const Problem& p, std::uint64_t seed, ladder::Operands of) {
    const CacheLayout at(p);
    T *const k = of["k"], *const v = of["v"];
    std::int32_t* const keys_used = of["keys_used"];
    for (int b = 0; b < p.batch; ++b) keys_used[b] = at.keys(b);

    std::int32_t* table = nullptr;
    if (p.page > 0) table = of["block_table"];
    const auto spoil = [&](std::size_t first, int rows) {
      const auto size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(p.d);
      std::fill_n(k + first, size, T(std::numeric_limits<float>::quiet_NaN()));
      std::fill_n(v + first, size, T(std::numeric_limits<float>::quiet_NaN()));
    };
    if (p.page > 0) {
      std::vector<std::int32_t> pages(static_cast<std::size_t>(at.pages()));
      ladder::make_input(ladder::input<std::int32_t>("pages", at.pages()).permutation(),
                         pages.data(), {}, ladder::RandomBits(seed, 0));
      std::size_t next = 0;
      for (int b = 0; b < p.batch; ++b) {
        for (int i = 0; i < at.table_pitch(); ++i) {
          table[b * std::int64_t{at.table_pitch()} + i] = i < at.pages_of(b) ? pages[next++] : -1;
        }
      }
      for (; next < pages.size(); ++next) {
        const int rows = p.page * p.kv_heads;
        spoil(static_cast<std::size_t>(pages[next]) * static_cast<std::size_t>(rows * p.d), rows);
      }
    }
    for (int b = 0; b < p.batch; ++b) {
      const int end = p.page > 0 ? at.pages_of(b) * p.page : at.positions_of_piece();
      for (int h = 0; h < p.kv_heads; ++h) {
        for (int key = at.keys(b); key < end; ++key) spoil(at.row(b, h, key, table), 1);
      }
    }
  }

  template <class T>
  static Args<T> bind(const Problem& p, ladder::Operands of) {
    const CacheLayout at(p);
    Args<T> a{.q = of["q"],
              .k = of["k"],
              .v = of["v"],
              .o = of["o"],
              .lse = of["lse"],
              .q_strides = Layout(p).q_strides(),
              .k_strides = at.strides(),
              .lse_strides = Layout(p).lse_strides(),
              .batch = p.batch,
              .heads = p.heads,
              .kv_heads = p.kv_heads,
              .queries = p.queries,
              .keys = p.keys,
              .d = p.d,
              .scale = 1 / std::sqrt(static_cast<float>(p.d)),
              .keys_used = of["keys_used"],
              .lengths_differ = p.shortest_keys >= 0};
    if (p.page > 0) {
      a.block_table = of["block_table"];
      a.page_bits = p.page == 16 ? 4 : 6;
      a.table_pitch = at.table_pitch();
    }
    return a;
  }

  /// Each sequence by itself is a problem of the causal operation.
  template <class T>
  static std::vector<ladder::Expected> reference(const Problem& p, ladder::Operands of) {
    const Layout of_queries(p);
    const CacheLayout at(p);
    const T *const q = of["q"], *const k = of["k"], *const v = of["v"];
    const std::int32_t* table = nullptr;
    if (p.page > 0) table = of["block_table"];
    std::vector<ladder::Expected> all =
        ladder::answers(ladder::zeros(of_queries.q_size()), ladder::zeros(of_queries.lse_size()));

    for (int b = 0; b < p.batch; ++b) {
      const Problem one{.batch = 1,
                        .heads = p.heads,
                        .kv_heads = p.kv_heads,
                        .queries = p.queries,
                        .keys = at.keys(b),
                        .d = p.d};
      const Layout of_one(one);
      std::vector<T> own_q(of_one.q_size()), own_k(of_one.k_size()), own_v(of_one.k_size());
      for (int h = 0; h < p.kv_heads; ++h) {
        for (int key = 0; key < one.keys; ++key) {
          const std::size_t from = at.row(b, h, key, table), to = of_one.key_row(0, h, key);
          std::copy_n(k + from, p.d, &own_k[to]);
          std::copy_n(v + from, p.d, &own_v[to]);
        }
      }
      const auto for_each_row = [&](auto f) {  // of the sequence's queries
        for (int h = 0; h < p.heads; ++h) {
          for (int i = 0; i < p.queries; ++i) {
            f(of_queries.query_row(b, h, i), of_queries.lse_of(b, h, i), of_one.query_row(0, h, i),
              of_one.lse_of(0, h, i));
          }
        }
      };
      for_each_row([&](std::size_t o_at, std::size_t, std::size_t own, std::size_t) {
        std::copy_n(q + o_at, p.d, &own_q[own]);
      });
      const auto answers =
          attention_reference::forward<T>(one, true, own_q.data(), own_k.data(), own_v.data());
      for_each_row([&](std::size_t o_at, std::size_t lse_at, std::size_t own, std::size_t own_lse) {
        std::copy_n(&answers[0].values[own], p.d, &all[0].values[o_at]);
        std::copy_n(&answers[0].magnitude[own], p.d, &all[0].magnitude[o_at]);
        all[1].values[lse_at] = answers[1].values[own_lse];
        all[1].magnitude[lse_at] = answers[1].magnitude[own_lse];
      });
    }
    return all;
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::RegisterFamily<Contract, half, bfloat16> registration;

}  // namespace
