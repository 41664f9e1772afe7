#include "host_executor/touches.hpp"

#include "host_executor/cluster_order.hpp"
#include "host_executor/global_races.hpp"
#include "host_executor/source.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace ladder::host {
namespace {

struct Race {
  const char* memory;
  Touch past, now;

  bool in_warp() const {
    return past.thread / kWarpSize == now.thread / kWarpSize &&
           std::max(past.thread, now.thread) < first_reader();
  }
  std::string text() const {
    return std::string("race in ") + memory + " memory: the " + name_of(now.access()) + " at " +
           source_text(now.address()) + " and the " + name_of(past.access()) + " of " +
           name_of(past.thread) +
           (is_remote(now.thread)
                ? " of the block of rank " + std::to_string(BlockVariable::selected())
                : "") +
           " at " + source_text(past.address()) + " have no " +
           (is_remote(past.thread) || is_remote(now.thread) ? "cluster_sync"
            : in_warp()                                     ? "__syncwarp"
                                                            : "__syncthreads") +
           " between them";
  }
};
unsigned block_threads = 0;
std::optional<Race> first_in_warp;  // since the block's threads last met

PerBlock per_block_epoch(epoch);
PerBlock per_block_began(block_began);
PerBlock per_block_clocks(clocks);
PerBlock per_block_heard(heard);
PerBlock per_block_first_in_warp(first_in_warp);
PerLaunch per_launch_in_cluster(in_cluster);
PerLaunch per_launch_cluster_began(cluster_began);
PerLaunch per_launch_clock_size(clock_size);
PerLaunch per_launch_block_threads(block_threads);

}  // namespace

const char* name_of(Access access) {
  switch (access) {
    case Access::load:
      return "load";
    case Access::store:
      return "store";
    case Access::atomic:
      return "atomic operation";
    case Access::bulk:
      return "bulk copy";
    case Access::bulk_read:
    case Access::bulk_write:
      return "bulk store";
    case Access::bulk_reduce:
      return "bulk reduction";
    case Access::product:
      return "wgmma";
    case Access::pushed:
      return "st.async";
    case Access::async:
    case Access::stmatrix:      // watched as a store
    case Access::cluster_load:  // as a load
      break;
  }
  return "cp.async";
}

std::string name_of(unsigned thread) {
  if (thread < first_reader()) return "thread " + thread_text(thread);
  if (!is_remote(thread)) return "warpgroup " + std::to_string(thread - first_reader());
  return "the block of rank " + std::to_string((thread - remote_reader(0)) / 2);
}

[[gnu::cold, gnu::noinline]] void report(const char* memory, const Touch& past, const Touch& now) {
  const Race race{memory, past, now};
  if (block_threads > kWarpSize && race.in_warp()) {
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
  block_began = epoch = ++last_epoch;
  clocks.resize(kMaxThreads + kWarpSize);
  heard.clear();
  block_threads = threads;
  clock_size = threads + kMostReaders + (in_cluster ? 2 * kMostBlocks : 0);
  first_in_warp.reset();
}

void begin_cluster(bool has_several_blocks) {
  in_cluster = has_several_blocks;
  cluster_began = last_epoch + 1;
}

void order_block() {
  if (in_cluster) share_remote_in_block();
  epoch = ++last_epoch;
  if (in_cluster || interleaved) note_epoch();
  share_in_block();
}

namespace {

void take_over(ThreadClock& to, const ThreadClock& from) {
  if (from.empty()) return;
  to.resize(clock_size);
  // Several at a time: g++ -O2 makes no vectors of a loop with a rest.
  using Times [[gnu::vector_size(16)]] = std::uint32_t;
  constexpr unsigned kTimes = sizeof(Times) / sizeof(std::uint32_t);
  unsigned i = 0;
  for (; i + kTimes <= clock_size; i += kTimes) {
    Times a, b;
    std::memcpy(&a, &to[i], sizeof a);
    std::memcpy(&b, &from[i], sizeof b);
    a = a > b ? a : b;
    std::memcpy(&to[i], &a, sizeof a);
  }
  for (; i < clock_size; ++i) to[i] = std::max(to[i], from[i]);
}

void share_heard(unsigned warp, unsigned lanes) {
  if (heard.empty()) return;
  const auto known = [&](unsigned lane) -> ThreadClock& { return heard[warp * kWarpSize + lane]; };
  bool alike = true;
  for_each_lane(lanes,
                [&](unsigned lane) { alike = alike && known(lane) == known(first_lane(lanes)); });
  if (alike) return;
  ThreadClock together;
  for_each_lane(lanes, [&](unsigned lane) { take_over(together, known(lane)); });
  for_each_lane(lanes, [&](unsigned lane) { known(lane) = together; });
}

}  // namespace

unsigned first_reader() { return block_threads; }
unsigned remote_reader(unsigned rank) { return block_threads + kMostReaders + 2 * rank; }
unsigned remote_writer(unsigned rank) { return remote_reader(rank) + 1; }
bool is_remote(unsigned thread) { return thread >= block_threads + kMostReaders; }

void release_to(ThreadClock& clock) {
  const unsigned thread = thread_number(), warp = thread / kWarpSize;
  tick(thread);
  clock.resize(clock_size);
  if (!heard.empty()) take_over(clock, heard[thread]);
  for (unsigned lane = 0; lane < kWarpSize && warp * kWarpSize + lane < clock_size; ++lane) {
    std::uint32_t& time = clock[warp * kWarpSize + lane];
    time = std::max(time, clocks[thread][lane]);
  }
}

void acquire_from(const ThreadClock& clock, unsigned thread) {
  if (clock.empty()) return;
  heard.resize(clock_size);
  take_over(heard[thread], clock);
  const unsigned warp = thread / kWarpSize;
  for (unsigned lane = 0; lane < kWarpSize && warp * kWarpSize + lane < clock_size; ++lane) {
    if (lane == thread % kWarpSize) continue;  // its own time is its own
    std::uint32_t& time = clocks[thread][lane];
    time = std::max(time, clock[warp * kWarpSize + lane]);
  }
}

void hear(unsigned thread, unsigned of, std::uint32_t time) {
  heard.resize(clock_size);
  note_time(heard[thread], of, time);
}

void note_time(ThreadClock& clock, unsigned thread, std::uint32_t time) {
  clock.resize(clock_size);
  clock[thread] = std::max(clock[thread], time);
}

void order_lanes(unsigned warp, unsigned lanes) {
  std::array<std::uint32_t, kWarpSize> latest{};
  auto* const of_lane = &clocks[std::size_t{warp} * kWarpSize];
  for_each_lane(lanes, [&](unsigned lane) {
    of_lane[lane][lane] = own_time(warp * kWarpSize + lane);
    for (unsigned i = 0; i < kWarpSize; ++i) latest[i] = std::max(latest[i], of_lane[lane][i]);
  });
  for_each_lane(lanes, [&](unsigned lane) { of_lane[lane] = latest; });
  share_heard(warp, lanes);
  share_in_warp(warp, lanes);
}

}  // namespace ladder::host
