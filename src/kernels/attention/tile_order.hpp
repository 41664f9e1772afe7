// The order in which blocks take tiles of queries, or of keys.
#pragma once

#include "attention.hpp"

#include <algorithm>

struct TilePlace {
  int tile, head, sequence;
};

/// All heads of all sequences in sections, of as many as the L2 holds what they go through, and within
/// a section tile by tile: those that run at the same time are of different heads, and read the same
/// as those before and after them.
class TileOrder {
 public:
  /// Of queries, which go through keys and values. Under a causal mask the last tile, which sees
  /// most, comes first; so it does where lengths differ, since only long sequences have it.
  template <class T>
  TileOrder(const attention::Args<T>& a, int rows, bool last_first)
      : TileOrder(a.heads, a.batch, ladder::ceil_div(a.queries, rows), last_first,
                  a.heads / a.kv_heads, std::int64_t{2} * a.keys * a.d * sizeof(T)) {}

  /// Of heads of keys, which go through q, d_o and fp32 sums of dq. The first tile, which is seen by
  /// most, comes first.
  template <class T>
  static TileOrder of_keys(const attention_backward::Args<T>& a, int rows) {
    const std::int64_t of_group = std::int64_t{a.heads / a.kv_heads} * a.queries * a.d;
    return TileOrder(a.kv_heads, a.batch, std::max(1, ladder::ceil_div(a.keys, rows)), false, 1,
                     of_group * static_cast<int>(2 * sizeof(T) + sizeof(float)));
  }

  __host__ __device__ int count() const { return all_ * tiles_; }
  /// Of a head.
  __device__ int tiles() const { return tiles_; }

  __device__ TilePlace at(int item) const {
    const int first = item / (section_ * tiles_) * section_;
    const int heads = min(section_, all_ - first);
    const int within = item - first * tiles_;
    const int tile = within / heads, head = first + within % heads;
    return {last_first_ ? tiles_ - 1 - tile : tile, head % heads_, head / heads_};
  }

 private:
  /// Sections are whole groups of heads, for each of which the L2 has so many bytes.
  TileOrder(int heads, int batch, int tiles, bool last_first, int group, std::int64_t of_group)
      : heads_(heads), all_(heads * batch), tiles_(tiles), last_first_(last_first) {
    constexpr std::int64_t kL2 = 32 << 20;  // bytes that stay
    const auto groups = static_cast<int>(std::clamp<std::int64_t>(
        kL2 / std::max<std::int64_t>(of_group, 1), 1, std::max(all_ / group, 1)));
    section_ = groups * group;
  }

  int heads_, all_, tiles_, section_;
  bool last_first_;
};

/// Hands out the items of an order to a grid of no more blocks. A block draws one when it is about to
/// load it: tiles take many times as long as that, and not all as long, so that a block that drew ahead
/// would keep one from those that have nothing to do.
class TileQueue {
 public:
  /// `drawn`: how many were drawn, beyond the blocks' first ones; the state.
  __device__ TileQueue(unsigned* drawn, const TileOrder& order)
      : drawn_(drawn), last_(order.count() - 1) {}

  /// By one thread. Numbers rise; a block ends with one that the order has not. That makes up for its
  /// first: as many are drawn as the order has, and the last of them makes `drawn` 0 again.
  __device__ int next() {
    const bool is_first = is_first_;
    is_first_ = false;
    return static_cast<int>(is_first ? blockIdx.x : gridDim.x + atomicInc(drawn_, last_));
  }

 private:
  unsigned *drawn_, last_;
  bool is_first_ = true;
};
