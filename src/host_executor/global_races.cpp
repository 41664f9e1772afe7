#include "host_executor/global_races.hpp"

#include "host_executor/executor.hpp"
#include "host_executor/lanes.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"
#include "support/out_of_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ladder::host {
namespace {

constexpr std::size_t kWidest = 16;           // of a piece, in bytes
constexpr std::size_t kMostCopied = 1 << 24;  // pieces, when they are made narrower

struct Block {
  Epoch began;
  uint3 index;
  unsigned launch;
};
std::vector<Block> blocks;  // of launches in progress, that have begun or, after others, gone on
uint3 own_index;
PerBlock per_block_index(own_index);

Epoch launch_began = 1;
Epoch overlap_began = 1;  // the first of the launches that may overlap
bool of_one_problem = false;
PerLaunch per_launch_began(launch_began);

// --- What blocks know of each other ------------------------------------------------------------

/// When a thread passed its last __threadfence.
struct Fence {
  unsigned thread;
  Epoch epoch;
  std::uint32_t time;
};
using Clock = std::array<std::uint32_t, kWarpSize>;
std::vector<Fence> last_fence;      // by thread
std::vector<Clock> clock_at_fence;  // by thread
unsigned fences_in_block = 0;
PerBlock per_block_last_fence(last_fence);
PerBlock per_block_clock_at_fence(clock_at_fence);
PerBlock per_block_fences(fences_in_block);

/// Whose access it was.
const Block& block_of(const Touch& past) {
  return *std::prev(std::partition_point(blocks.begin(), blocks.end(),
                                         [&](const Block& b) { return b.began <= past.epoch; }));
}
Block own_block() { return {epoch, own_index, LaunchNumber::selected()}; }
bool same(const Block& a, const Block& b) {
  return a.index.x == b.index.x && a.index.y == b.index.y && a.index.z == b.index.z &&
         a.launch == b.launch;
}

/// Of an access of this launch that is no older than the running block, or its cluster.
bool is_own(const Touch& past) {
  return !interleaved || in_cluster || past.epoch == epoch || same(block_of(past), own_block());
}

/// An address by which blocks meet, and how many of its releases someone knows.
struct Place;
using Known = std::vector<std::pair<const Place*, std::size_t>>;

/// A thread of a block has met whoever accesses the same address next.
struct Release {
  Epoch cluster_began, epoch;
  Block block;
  unsigned thread;
  std::uint32_t time;
  Clock clock, clock_at_fence;  // the thread's
  std::vector<Fence> fences;    // of the block
  Known known;

  bool passes_on(const Touch& past) const {
    if (in_cluster && !same(block, block_of(past))) return !fences.empty();  // of the cluster
    const bool in_warp = past.thread / kWarpSize == thread / kWarpSize;
    const unsigned lane = past.thread % kWarpSize;
    const bool known_to_thread = past.epoch < epoch ||
                                 (past.thread == thread && past.time <= time) ||
                                 (in_warp && clock[lane] >= past.time);
    return known_to_thread && std::any_of(fences.begin(), fences.end(), [&](const Fence& fence) {
             if (fence.thread == past.thread) return fence.time >= past.time;
             return fence.thread == thread &&
                    (fence.epoch > past.epoch || (in_warp && clock_at_fence[lane] >= past.time));
           });
  }
};

struct Place {
  std::vector<Release> releases;  // in the order of time
};
using Places = std::unordered_map<std::uintptr_t, Place>;
Places places, places_of_problem;
PerLaunch per_launch_places(places);
Places& places_to_meet() { return of_one_problem ? places_of_problem : places; }

void add(Known& known, const Place* place, std::size_t count) {
  for (auto& [other, most] : known) {
    if (other == place) {
      most = std::max(most, count);
      return;
    }
  }
  known.emplace_back(place, count);
}
void add(Known& known, const Known& more) {
  for (const auto& [place, count] : more) add(known, place, count);
}

/// What a thread has seen of others; known is what it has passed a __threadfence since.
struct Seen {
  Known known, unfenced;
};
std::vector<Seen> seen_by;   // by thread
Seen seen_by_block;          // by all its threads, at their last barrier
bool anything_seen = false;  // by a thread of the block
PerBlock per_block_seen_by(seen_by);
PerBlock per_block_seen_by_block(seen_by_block);
PerBlock per_block_anything_seen(anything_seen);

void add(Seen& to, const Seen& from) {
  add(to.known, from.known);
  add(to.unfenced, from.unfenced);
}

bool passed_on(const Known& known, const Touch& past,
               std::set<std::pair<const Place*, std::size_t>>& asked) {
  for (const auto& [place, count] : known) {
    if (!asked.emplace(place, count).second) continue;
    const auto begin = place->releases.begin(), end = begin + static_cast<std::ptrdiff_t>(count);
    if (interleaved && !in_cluster) {  // the epochs of releases don't ascend
      const Block block = block_of(past);
      for (auto at = begin; at != end; ++at) {
        const bool of_block = at->epoch >= past.epoch && same(at->block, block);
        if (of_block && at->passes_on(past)) return true;
        if (!at->known.empty() && passed_on(at->known, past, asked)) return true;
      }
      continue;
    }
    const auto of_block = std::partition_point(
        begin, end, [&](const Release& release) { return release.epoch < past.epoch; });
    for (auto at = of_block; at != end && at->cluster_began <= past.epoch; ++at) {
      if (at->passes_on(past)) return true;
    }
    for (auto at = of_block; at != end; ++at) {
      if (!at->known.empty() && passed_on(at->known, past, asked)) return true;
    }
  }
  return false;
}

/// Whether other threads' access of the past is known to a thread by way of an address.
bool passed_on(unsigned thread, const Touch& past) {
  if (!anything_seen) return false;
  std::set<std::pair<const Place*, std::size_t>> asked;
  return passed_on(seen_by[thread].known, past, asked) ||
         passed_on(seen_by_block.known, past, asked);
}

// --- Races -------------------------------------------------------------------------------------

std::string text(uint3 v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

[[noreturn, gnu::cold]] void fail_between_blocks(const Touch& past, const Touch& now) {
  const Block& block = block_of(past);
  fail_thread(std::string("race in global memory: the ") + name_of(now.access()) + " at " +
              source_text(now.address()) + " and the " + name_of(past.access()) + " of block " +
              text(block.index) + " thread " + thread_text(past.thread) +
              (of_one_problem ? " of stream " + std::to_string(block.launch) : "") + " at " +
              source_text(past.address()) +
              " are in no order: between blocks that takes a __threadfence and an atomic operation "
              "on both sides, or a release and an acquire");
}

[[noreturn, gnu::cold]] void fail_between_launches(const Touch& past, const Touch& now) {
  fail_thread(std::string("race in global memory: the ") + name_of(now.access()) + " at " +
              source_text(now.address()) + " and the " + name_of(past.access()) + " of block " +
              text(block_of(past).index) + " of stream " + std::to_string(past.launch) + " at " +
              source_text(past.address()) +
              " are of two launches that may overlap: they may share no memory that one of them "
              "writes, be it a workspace or state");
}

[[gnu::cold]] void expect_complete(const Touch& past, const Touch& now) {
  if (past.access() == Access::bulk_write && now.access() == Access::bulk_write) return;
  fail_thread(std::string("global memory before bulk_wait_group: the ") + name_of(now.access()) +
              " at " + source_text(now.address()) + " finds the " + name_of(past.access()) +
              " at " + source_text(past.address()) + " still on its way");
}

[[gnu::always_inline]] inline void expect_order(const Touch& past, const Touch& now) {
  const bool is_others = of_one_problem && past.launch != now.launch;
  if (past.epoch < (is_others ? overlap_began : launch_began)) return;
  if (past.strong && now.strong) return;
  const bool same_cluster = past.epoch >= cluster_began && is_own(past);
  if ((same_cluster && ordered(past, now.thread)) || passed_on(now.thread, past)) [[likely]] {
    if (past.pending) [[unlikely]]
      expect_complete(past, now);
    return;
  }
  if (!same_cluster) fail_between_blocks(past, now);
  report("global", past, now);
}

}  // namespace

GlobalShadow::~GlobalShadow() {
  remove(writes_);
  for (Touch*& reads : reads_) remove(reads);
  for (Touch*& reads : overlapping_) remove(reads);
}

Touch* GlobalShadow::make() const {  // zeros, which cost nothing until they are touched
  const std::size_t size = ((bytes_ >> shift_) + 1) * sizeof(Touch);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw OutOfMemory(static_cast<double>(size), static_cast<double>(free_host_memory()),
                      "the record of accesses to an array");
  }
  madvise(memory, size, MADV_NOHUGEPAGE);
  return static_cast<Touch*>(memory);
}

void GlobalShadow::remove(Touch*& touches) const {
  if (touches) munmap(touches, ((bytes_ >> shift_) + 1) * sizeof(Touch));
  touches = nullptr;
}

/// Makes the pieces narrower. (Of an allocation that is larger than memory, what was there is
/// forgotten.)
void GlobalShadow::narrow(unsigned shift) {
  const std::size_t ratio = std::size_t{1} << (shift_ - shift);
  const bool copies = first_ <= last_ && (last_ - first_) * ratio < kMostCopied;
  GlobalShadow narrower(bytes_);
  narrower.shift_ = shift;
  const auto copy = [&](const Touch* from, Touch*& to) {
    if (!from) return;
    to = narrower.make();
    for (std::size_t i = first_; copies && i <= last_; ++i)
      std::fill_n(to + i * ratio, ratio, from[i]);
  };
  copy(writes_, narrower.writes_);
  for (int i = 0; i < 2; ++i) {
    copy(reads_[i], narrower.reads_[i]);
    copy(overlapping_[i], narrower.overlapping_[i]);
  }
  narrower.first_ = copies ? first_ * ratio : SIZE_MAX;
  narrower.last_ = copies ? last_ * ratio + ratio - 1 : 0;
  std::swap(writes_, narrower.writes_);
  std::swap(reads_, narrower.reads_);
  std::swap(overlapping_, narrower.overlapping_);
  std::swap(shift_, narrower.shift_);
  first_ = narrower.first_;
  last_ = narrower.last_;
}

/// Ends the launch if one that may overlap it has accessed some of the pieces, and one of the two
/// accesses is a write.
void GlobalShadow::expect_own_memory(std::size_t begin, std::size_t end, const Touch& now) {
  const auto is_others = [&](const Touch& past) {
    return past.epoch >= overlap_began && past.launch != now.launch;
  };
  const bool loads = now.access() == Access::load;
  if (loads && !overlapping_[0]) {
    for (Touch*& reads : overlapping_) reads = make();
  }
  for (std::size_t i = begin; i < end; ++i) {
    if (is_others(writes_[i])) fail_between_launches(writes_[i], now);
    if (loads) {
      Touch& last = overlapping_[0][i];
      if (is_others(last)) overlapping_[1][i] = last;
      last = now;
    } else if (overlapping_[0]) {
      for (const Touch* reads : overlapping_) {
        if (is_others(reads[i])) fail_between_launches(reads[i], now);
      }
    }
  }
}

void GlobalShadow::note(const void* pc, std::size_t offset, std::size_t bytes, Access access,
                        bool strong) {
  const bool reduces = access == Access::atomic || access == Access::bulk_reduce;
  Touch now = Touch::now(pc, access, strong || reduces);
  if (!writes_) {
    shift_ = static_cast<unsigned>(std::countr_zero(bytes | kWidest));
    writes_ = make();
  }
  const auto mask = (std::size_t{1} << shift_) - 1;
  if ((bytes & mask) || (offset & mask)) [[unlikely]] {
    narrow(static_cast<unsigned>(std::countr_zero(bytes | offset | kWidest)));
  }
  const std::size_t begin = offset >> shift_, end = (offset + bytes) >> shift_;
  first_ = std::min(first_, begin);
  last_ = std::max(last_, end - 1);
  if (launches_overlap) [[unlikely]] {
    now.launch = static_cast<std::uint8_t>(LaunchNumber::selected()) & ((1 << kLaunchBits) - 1);
    if (!of_one_problem) expect_own_memory(begin, end, now);
  }
  const bool loads = access == Access::load;
  if (loads && !reads_[0]) {
    for (Touch*& reads : reads_) reads = make();
  }
  for (std::size_t i = begin; i < end; ++i) {
    expect_order(writes_[i], now);
    if (loads) {
      // Of those that are in no order with this one, the other is kept.
      Touch& last = reads_[0][i];
      if (last.epoch == epoch && last.thread != now.thread) reads_[1][i] = last;
      last = now;
      continue;
    }
    if (reads_[0]) {
      for (const Touch* reads : reads_) expect_order(reads[i], now);
    }
    writes_[i] = now;
  }
}

void GlobalShadow::complete(std::size_t offset, std::size_t bytes) {
  const Touch now = Touch::now(nullptr, Access::store);
  for (std::size_t i = offset >> shift_; i < (offset + bytes) >> shift_; ++i) {
    Touch& write = writes_[i];
    if (!write.pending || write.thread != now.thread || write.epoch < block_began) continue;
    if (!is_own(write)) continue;
    write.epoch = now.epoch;
    write.time = now.time;
    write.pending = false;
  }
}

void begin_overlap(bool one_problem) {
  launches_overlap = interleaved = true;
  of_one_problem = one_problem;
  places_of_problem.clear();
  overlap_began = last_epoch + 1;
  blocks.clear();
}

void end_overlap() { launches_overlap = interleaved = of_one_problem = false; }

void begin_launch() {
  launch_began = last_epoch + 1;
  places.clear();
  if (!launches_overlap) blocks.clear();
}

void begin_block_of_launch(uint3 index) {
  own_index = index;
  note_epoch();
  last_fence.resize(kMaxThreads);
  clock_at_fence.resize(kMaxThreads);
  seen_by.resize(kMaxThreads);
  fences_in_block = 0;
  if (!anything_seen) return;
  anything_seen = false;
  seen_by_block = {};
  for (Seen& seen : seen_by) seen = {};
}

void note_epoch() { blocks.push_back(own_block()); }

void fence() {
  const unsigned thread = thread_number();
  const std::uint32_t time = own_time(thread);
  fences_in_block += last_fence[thread].epoch < block_began;
  last_fence[thread] = {thread, epoch, time};
  clock_at_fence[thread] = clocks[thread];
  clocks[thread][thread % kWarpSize] = time;  // what follows is later
  if (!anything_seen) return;
  Seen& seen = seen_by[thread];
  add(seen.known, seen.unfenced);
  add(seen.known, seen_by_block.unfenced);
  seen.unfenced.clear();
}

void meet_blocks(const void* address, Access access) {
  const auto key = reinterpret_cast<std::uintptr_t>(address);
  const unsigned thread = thread_number();
  Places& known = places_to_meet();
  if (access != Access::store && !known.empty()) {
    const auto place = known.find(key);
    if (place != known.end()) {
      add(seen_by[thread].unfenced, &place->second, place->second.releases.size());
      anything_seen = true;
    }
  }
  if (access == Access::load || fences_in_block == 0) return;
  Release release{.cluster_began = cluster_began,
                  .epoch = epoch,
                  .block = own_block(),
                  .thread = thread,
                  .time = own_time(thread),
                  .clock = clocks[thread],
                  .clock_at_fence = clock_at_fence[thread],
                  .fences = {},
                  .known = seen_by[thread].known};
  add(release.known, seen_by_block.known);
  for (unsigned i = 0, left = fences_in_block; left > 0; ++i) {
    if (last_fence[i].epoch < block_began) continue;
    release.fences.push_back(last_fence[i]);
    --left;
  }
  known[key].releases.push_back(std::move(release));
}

void share_in_block() {
  if (!anything_seen) return;
  for (Seen& seen : seen_by) {
    add(seen_by_block, seen);
    seen = {};
  }
}

void share_in_cluster(unsigned blocks_of_cluster) {
  Seen together;
  for (unsigned rank = 0; rank < blocks_of_cluster; ++rank) {
    const InBlock each(rank);
    share_in_block();
    add(together, seen_by_block);
  }
  if (together.known.empty() && together.unfenced.empty()) return;
  for (unsigned rank = 0; rank < blocks_of_cluster; ++rank) {
    const InBlock each(rank);
    seen_by_block = together;
    anything_seen = true;
  }
}

void share_in_warp(unsigned warp, unsigned lanes) {
  if (!anything_seen) return;
  Seen together;
  const auto of_lane = seen_by.begin() + warp * kWarpSize;
  for_each_lane(lanes, [&](unsigned lane) { add(together, of_lane[lane]); });
  for_each_lane(lanes, [&](unsigned lane) { of_lane[lane] = together; });
}

}  // namespace ladder::host
