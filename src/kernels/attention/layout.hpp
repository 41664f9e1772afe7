// Where the rows of a problem of attention lie. Included by family.cpp and its reference.
#pragma once

#include "attention.hpp"
#include "harness/family.hpp"

#include <algorithm>
#include <cmath>

namespace attention_layout {

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

}  // namespace attention_layout
