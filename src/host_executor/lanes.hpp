// Warps and sets of their lanes: bit i of a set is lane i.
#pragma once

#include <bit>

namespace ladder::host {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kMaxThreads = 1024;  // of a block

/// The first lane of a set that is not empty.
inline unsigned first_lane(unsigned lanes) {
  return static_cast<unsigned>(std::countr_zero(lanes));
}

/// Calls visit(lane) for every lane of a set, in order.
template <class F>
void for_each_lane(unsigned lanes, F visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(first_lane(lanes));
}

}  // namespace ladder::host
