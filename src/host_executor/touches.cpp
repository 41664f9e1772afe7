#include "host_executor/touches.hpp"

#include "host_executor/global_races.hpp"
#include "host_executor/source.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace ladder::host {
namespace {

struct Race {
  const char* memory;
  Touch past, now;

  bool in_warp() const { return past.thread / kWarpSize == now.thread / kWarpSize; }
  std::string text() const {
    return std::string("race in ") + memory + " memory: the " + name_of(now.access()) + " at " +
           source_text(now.address()) + " and the " + name_of(past.access()) + " of thread " +
           thread_text(past.thread) + " at " + source_text(past.address()) + " have no " +
           (in_warp() ? "__syncwarp" : "__syncthreads") + " between them";
  }
};
bool several_warps = false;
std::optional<Race> first_in_warp;  // since the block's threads last met

}  // namespace

const char* name_of(Access access) {
  switch (access) {
    case Access::load:
      return "load";
    case Access::store:
      return "store";
    case Access::atomic:
      return "atomic operation";
    case Access::async:
      break;
  }
  return "cp.async";
}

[[gnu::cold, gnu::noinline]] void report(const char* memory, const Touch& past, const Touch& now) {
  const Race race{memory, past, now};
  if (several_warps && race.in_warp()) {
    if (!first_in_warp) first_in_warp = race;
    return;
  }
  first_in_warp.reset();
  fail_thread(race.text());
}

std::optional<WarpRace> race_in_warp() {
  if (!first_in_warp) return {};
  return WarpRace{first_in_warp->now.thread, first_in_warp->text()};
}

void begin_block(unsigned threads) {
  block_began = ++epoch;
  several_warps = threads > kWarpSize;
  first_in_warp.reset();
}

void order_block() {
  ++epoch;
  share_in_block();
}

void order_lanes(unsigned warp, unsigned lanes) {
  std::array<std::uint32_t, kWarpSize> latest{};
  auto* const of_lane = &clocks[std::size_t{warp} * kWarpSize];
  for_each_lane(lanes, [&](unsigned lane) {
    of_lane[lane][lane] = own_time(warp * kWarpSize + lane);
    for (unsigned i = 0; i < kWarpSize; ++i) latest[i] = std::max(latest[i], of_lane[lane][i]);
  });
  for_each_lane(lanes, [&](unsigned lane) { of_lane[lane] = latest; });
  share_in_warp(warp, lanes);
}

}  // namespace ladder::host
