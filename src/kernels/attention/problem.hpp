// A problem of attention as text, and where its rows lie. Included by family.cpp and its reference.
#pragma once

#include "attention.hpp"
#include "harness/family.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace attention_problem {

inline constexpr const char* kHelp =
    "BATCHxHEADSxLENGTHxD with D 64 or 128, e.g. 4x16x4096x128; HEADS:KV_HEADS for grouped heads, "
    "QUERIES:KEYS or SHORTEST..LONGEST for LENGTH, and behind it @bshd, @top_left; of decode, with "
    "up to 16 queries, QUERIES:SHORTEST..LONGEST, and behind it @bshd, @page16 or @page64";

/// Reads a number that text begins with.
inline bool take(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}
inline bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// Of any operation.
inline std::optional<attention::Problem> parse_any(std::string_view text) {
  attention::Problem p{};
  if (!take(text, p.batch) || !take(text, "x") || !take(text, p.heads)) return std::nullopt;
  p.kv_heads = p.heads;
  if (take(text, ":") && !take(text, p.kv_heads)) return std::nullopt;
  if (!take(text, "x") || !take(text, p.queries)) return std::nullopt;
  p.keys = p.queries;
  if (take(text, "..")) {
    p.shortest = p.queries;
    if (!take(text, p.keys) || p.keys < p.shortest) return std::nullopt;
    p.queries = p.keys;
  } else if (take(text, ":")) {
    if (!take(text, p.keys)) return std::nullopt;
    if (take(text, "..")) {
      p.shortest_keys = p.keys;
      if (!take(text, p.keys) || p.keys < p.shortest_keys) return std::nullopt;
    }
  }
  if (!take(text, "x") || !take(text, p.d)) return std::nullopt;
  p.bshd = take(text, "@bshd");
  p.top_left = take(text, "@top_left");
  p.page = take(text, "@page16") ? 16 : take(text, "@page64") ? 64 : 0;
  // A grid has as many blocks along y and z; rows may be counted beyond their end in an int.
  constexpr int kMostBlocks = 65535, kMostRows = 1 << 28;
  const bool fits =
      p.batch <= kMostBlocks && p.heads <= kMostBlocks && p.queries <= kMostRows &&
      p.keys <= kMostRows &&
      (!(p.has_lengths() || p.has_cache()) || p.keys * std::int64_t{p.batch} <= kMostRows);
  const bool groups = p.kv_heads > 0 && p.heads > 0 && p.heads % p.kv_heads == 0;
  if (!text.empty() || !fits || !groups || (p.d != 64 && p.d != 128)) return std::nullopt;
  return p;
}

/// Of an operation without a cache.
inline std::optional<attention::Problem> parse(std::string_view text) {
  const auto p = parse_any(text);
  return p && !p->has_cache() ? p : std::nullopt;
}

inline std::string text(const attention::Problem& p) {
  std::string t = std::to_string(p.batch) + "x" + std::to_string(p.heads);
  if (p.kv_heads != p.heads) t += ":" + std::to_string(p.kv_heads);
  t += "x";
  if (p.has_lengths()) t += std::to_string(p.shortest) + "..";
  t += std::to_string(p.queries);
  if (p.shortest_keys >= 0) {
    t += ":" + std::to_string(p.shortest_keys) + ".." + std::to_string(p.keys);
  } else if (p.keys != p.queries) {
    t += ":" + std::to_string(p.keys);
  }
  t += "x" + std::to_string(p.d);
  if (p.bshd) t += "@bshd";
  if (p.top_left) t += "@top_left";
  if (p.page > 0) t += "@page" + std::to_string(p.page);
  return t;
}

/// Where rows lie, in elements. Sequences of one length are [batch][heads][rows][d], or of bshd
/// [batch][rows][heads][d]; of different lengths, without the batch, one behind the other, and
/// behind the keys of each are kUnused rows more.
class Layout {
 public:
  static constexpr int kUnused = 3;

  explicit Layout(const attention::Problem& p) : p_(p) {
    if (!p.has_lengths()) return;
    for (int b = 0; b < p.batch; ++b) {
      query_starts_.push_back(query_starts_.back() + length(b));
      key_starts_.push_back(key_starts_.back() + length(b) + kUnused);
    }
  }

  int queries(int sequence) const { return p_.has_lengths() ? length(sequence) : p_.queries; }
  int keys(int sequence) const { return p_.has_lengths() ? length(sequence) : p_.keys; }
  int query_start(int sequence) const { return query_starts_[static_cast<std::size_t>(sequence)]; }
  int key_start(int sequence) const { return key_starts_[static_cast<std::size_t>(sequence)]; }

  /// Of all sequences, and one head.
  std::int64_t all_queries() const {
    return p_.has_lengths() ? query_starts_.back() : std::int64_t{p_.batch} * p_.queries;
  }
  std::int64_t keys_used() const {
    return p_.has_lengths() ? query_starts_.back() : std::int64_t{p_.batch} * p_.keys;
  }
  std::int64_t all_keys() const {
    return p_.has_lengths() ? key_starts_.back() : std::int64_t{p_.batch} * p_.keys;
  }

  std::size_t q_size() const { return static_cast<std::size_t>(all_queries() * p_.heads * p_.d); }
  std::size_t k_size() const { return static_cast<std::size_t>(all_keys() * p_.kv_heads * p_.d); }
  std::size_t lse_size() const { return static_cast<std::size_t>(all_queries() * p_.heads); }

  attention::Strides q_strides() const {
    return strides(p_.heads, p_.has_lengths() ? query_starts_.back() : p_.queries, p_.d);
  }
  attention::Strides k_strides() const {
    return strides(p_.kv_heads, p_.has_lengths() ? key_starts_.back() : p_.keys, p_.d);
  }
  attention::Strides lse_strides() const {
    if (p_.has_lengths()) return {0, query_starts_.back(), 1};
    return {std::int64_t{p_.heads} * p_.queries, p_.queries, 1};
  }

  std::size_t query_row(int sequence, int head, int row) const {
    return at(q_strides(), sequence, head, row + (p_.has_lengths() ? query_start(sequence) : 0));
  }
  std::size_t key_row(int sequence, int head, int row) const {
    return at(k_strides(), sequence, head, row + (p_.has_lengths() ? key_start(sequence) : 0));
  }
  std::size_t lse_of(int sequence, int head, int row) const {
    return at(lse_strides(), sequence, head, row + (p_.has_lengths() ? query_start(sequence) : 0));
  }

 private:
  /// From the shortest to the longest in equal ratios, short ones and long ones by turns.
  int length(int sequence) const {
    const int place = sequence % 2 == 0 ? sequence / 2 : p_.batch - 1 - sequence / 2;
    if (place == 0) return p_.shortest;
    const double from = p_.shortest + 1.0, ratio = (p_.queries + 1.0) / from;
    return static_cast<int>(std::lround(from * std::pow(ratio, place / (p_.batch - 1.0)))) - 1;
  }

  attention::Strides strides(int heads, std::int64_t rows, int d) const {
    const std::int64_t batch = p_.has_lengths() ? 0 : heads * rows * d;
    if (p_.bshd) return {batch, d, std::int64_t{heads} * d};
    return {batch, rows * d, d};
  }
  static std::size_t at(const attention::Strides& by, int sequence, int head, int row) {
    return static_cast<std::size_t>(sequence * by.batch + head * by.head + row * by.row);
  }

  attention::Problem p_;
  std::vector<int> query_starts_{0}, key_starts_{0};
};

}  // namespace attention_problem
