// The order in which persistent blocks take tiles of queries.
#pragma once

#include "attention.hpp"

#include <algorithm>

struct TilePlace {
  int tile, head, sequence;
};

/// All heads of all sequences in sections, of as many as the L2 holds the keys and values of, and
/// within a section tile by tile: those that run at the same time are of different heads, and read
/// the same keys as those before and after them. Under a causal mask the last tile of queries, which
/// sees most, comes first.
class TileOrder {
 public:
  template <class T>
  TileOrder(const attention::Args<T>& a, int rows, bool last_first)
      : heads_(a.heads),
        all_(a.heads * a.batch),
        tiles_(ladder::ceil_div(a.queries, rows)),
        last_first_(last_first) {
    constexpr std::int64_t kL2 = 32 << 20;  // bytes that stay
    const int group = a.heads / a.kv_heads;
    const std::int64_t of_head = std::int64_t{2} * a.keys * a.d * sizeof(T);
    const auto kv_heads = static_cast<int>(std::clamp<std::int64_t>(
        kL2 / std::max<std::int64_t>(of_head, 1), 1, std::max(all_ / group, 1)));
    section_ = kv_heads * group;
  }

  __host__ __device__ int count() const { return all_ * tiles_; }

  __device__ TilePlace at(int item) const {
    const int first = item / (section_ * tiles_) * section_;
    const int heads = min(section_, all_ - first);
    const int within = item - first * tiles_;
    const int tile = within / heads, head = first + within % heads;
    return {last_first_ ? tiles_ - 1 - tile : tile, head % heads_, head / heads_};
  }

 private:
  int heads_, all_, tiles_, section_;
  bool last_first_;
};
