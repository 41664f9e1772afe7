#include "host_executor/warp.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "host_executor/lanes.hpp"
#include "host_executor/touches.hpp"

namespace ladder::host {
namespace {

struct ShuffleRecord {
  std::uint64_t value;
  int source;
  std::uint64_t result = 0;
};

void complete_shuffle(void* const* records, unsigned lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    auto& mine = *static_cast<ShuffleRecord*>(records[lane]);
    if (!(lanes >> mine.source & 1)) {
      fail_collective(lane,
                      "reads lane " + std::to_string(mine.source) + ", which does not take part");
    }
    mine.result = static_cast<const ShuffleRecord*>(records[mine.source])->value;
  });
}

struct VoteRecord {
  bool yes;
  unsigned result = 0;
};

void complete_vote(void* const* records, unsigned lanes) {
  unsigned ballot = 0;
  for_each_lane(lanes, [&](unsigned lane) {
    if (static_cast<const VoteRecord*>(records[lane])->yes) ballot |= 1u << lane;
  });
  for_each_lane(lanes,
                [&](unsigned lane) { static_cast<VoteRecord*>(records[lane])->result = ballot; });
}

// Every lane's record is its value, and then the result.
template <class T, class Combine>
void complete_reduce(void* const* records, unsigned lanes) {
  T total = *static_cast<const T*>(records[first_lane(lanes)]);
  for_each_lane(lanes & (lanes - 1), [&](unsigned lane) {
    total = Combine{}(total, *static_cast<const T*>(records[lane]));
  });
  for_each_lane(lanes, [&](unsigned lane) { *static_cast<T*>(records[lane]) = total; });
}

template <class Combine>
constexpr auto reduce_unsigned = &complete_reduce<std::uint32_t, Combine>;
template <class Combine>
constexpr auto reduce_int = &complete_reduce<std::int32_t, Combine>;

struct Min {
  auto operator()(auto a, auto b) const { return std::min(a, b); }
};
struct Max {
  auto operator()(auto a, auto b) const { return std::max(a, b); }
};

// In the order of the enumerations.
constexpr Collective kShuffles[] = {
    {"__shfl_sync", &complete_shuffle},
    {"__shfl_up_sync", &complete_shuffle},
    {"__shfl_down_sync", &complete_shuffle},
    {"__shfl_xor_sync", &complete_shuffle},
};
constexpr Collective kVotes[] = {
    {"__ballot_sync", &complete_vote},
    {"__any_sync", &complete_vote},
    {"__all_sync", &complete_vote},
};
constexpr Collective kReductions[] = {
    {"__reduce_add_sync", reduce_unsigned<std::plus<>>},
    {"__reduce_min_sync", reduce_int<Min>},
    {"__reduce_max_sync", reduce_int<Max>},
    {"__reduce_min_sync", reduce_unsigned<Min>},
    {"__reduce_max_sync", reduce_unsigned<Max>},
    {"__reduce_and_sync", reduce_unsigned<std::bit_and<>>},
    {"__reduce_or_sync", reduce_unsigned<std::bit_or<>>},
    {"__reduce_xor_sync", reduce_unsigned<std::bit_xor<>>},
};
constexpr Collective kSyncwarp = {"__syncwarp", [](void* const*, unsigned lanes) {
                                    order_lanes(thread_number() / kWarpSize, lanes);
                                  }};

int source_lane(Shuffle kind, int lane, int amount, int width) {
  const int first = lane & ~(width - 1);
  const int last = lane | (width - 1);
  int source = lane;
  switch (kind) {
    case Shuffle::indexed:
      return first | (amount & (width - 1));
    case Shuffle::up:
      source = lane - (amount & 31);
      return source < first ? lane : source;
    case Shuffle::down:
      source = lane + (amount & 31);
      break;
    case Shuffle::exclusive_or:
      source = lane ^ (amount & 31);
      break;
  }
  return source > last ? lane : source;
}

}  // namespace

void syncwarp(unsigned mask, std::source_location at) { collective(kSyncwarp, mask, nullptr, at); }

std::uint64_t shuffle(Shuffle kind, unsigned mask, std::uint64_t value, int amount, int width,
                      std::source_location at) {
  const int lane = static_cast<int>(lane_id());
  ShuffleRecord record{.value = value, .source = source_lane(kind, lane, amount, width)};
  collective(kShuffles[static_cast<int>(kind)], mask, &record, at);
  return record.result;
}

unsigned vote(Vote kind, unsigned mask, bool yes, std::source_location at) {
  VoteRecord record{.yes = yes};
  collective(kVotes[static_cast<int>(kind)], mask, &record, at);
  return record.result;
}

std::uint32_t reduce(Reduce kind, unsigned mask, std::uint32_t value, std::source_location at) {
  collective(kReductions[static_cast<int>(kind)], mask, &value, at);
  return value;
}

}  // namespace ladder::host
