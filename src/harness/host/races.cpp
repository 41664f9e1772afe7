#include "harness/host/races.hpp"

#include "harness/host/executor.hpp"
#include "harness/host/lanes.hpp"
#include "harness/host/memory.hpp"
#include "harness/host/source.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>

namespace ladder::host {
namespace {

constexpr std::size_t kWord = 4;

// Time goes on at every barrier and every new block.
std::uint32_t epoch = 1;
std::uint32_t block_began = 1;

// Within an epoch a warp's lanes have vector clocks: clocks[a][b] is the time of its own that lane b
// had when a last heard of it, through __syncwarp. A lane's own time is one ahead.
std::array<std::array<std::uint32_t, kWarpSize>, kMaxThreads> clocks;

std::uint32_t own_time(unsigned thread) { return clocks[thread][thread % kWarpSize] + 1; }

/// Who accessed a piece of shared memory, and when.
struct Touch {
  std::uint32_t epoch;
  std::uint32_t time;
  std::int32_t pc;  // from anchor()
  std::uint16_t thread;
  std::uint8_t kind;  // an Access
  bool pending;       // an asynchronous write that is not complete

  Access access() const { return static_cast<Access>(kind); }
};

/// The last accesses to a piece. Of its readers two are remembered, of different warps if possible.
struct Cell {
  Touch write, read, other_read;
};

const char* anchor() { return reinterpret_cast<const char*>(&watch_shared); }

/// Whether an access of the past happened before what `thread` does now.
bool ordered(const Touch& past, unsigned thread) {
  if (past.epoch != epoch || past.thread == thread) return true;
  return past.thread / kWarpSize == thread / kWarpSize &&
         clocks[thread][past.thread % kWarpSize] >= past.time;
}

struct Race {
  Touch past, now;

  bool in_warp() const { return past.thread / kWarpSize == now.thread / kWarpSize; }
  std::string text() const {
    return "race in shared memory: the " + std::string(name_of(now.access())) + " at " +
           source_text(anchor() + now.pc) + " and the " + name_of(past.access()) + " of thread " +
           thread_text(past.thread) + " at " + source_text(anchor() + past.pc) + " have no " +
           (in_warp() ? "__syncwarp" : "__syncthreads") + " between them";
  }
};
bool several_warps = false;
std::optional<Race> first_in_warp;  // since the block's threads last met

[[gnu::cold, gnu::noinline]] void report(const Touch& past, const Touch& now) {
  const Race race{past, now};
  if (several_warps && race.in_warp()) {
    if (!first_in_warp) first_in_warp = race;
    return;
  }
  first_in_warp.reset();
  fail_thread(race.text());
}

[[noreturn, gnu::cold]] void fail_pending(const Touch& write, const Touch& now) {
  const bool reads = now.access() == Access::load;
  const bool own = write.thread == now.thread;
  fail_thread(std::string(reads ? "read" : "written") + " before cp_async_wait_group" +
              (own ? "" : " and a barrier") + ": the " + name_of(now.access()) + " at " +
              source_text(anchor() + now.pc) + " finds the " + name_of(write.access()) + " of " +
              (own ? "this thread" : "thread " + thread_text(write.thread)) + " at " +
              source_text(anchor() + write.pc) + " still on its way");
}

/// What is known of one part of shared memory: a cell per word, or per byte once a block has
/// accessed less than a word.
class Shadow {
 public:
  explicit Shadow(std::size_t bytes)
      : words_(make(bytes / kWord + 1)), bytes_(make(bytes + kWord)) {}

  void watch(std::size_t offset, std::size_t bytes, Access access, const Touch& now) {
    if (block_ != block_began) {
      block_ = block_began;
      by_byte_ = false;
      first_ = ~std::size_t{0};
      last_ = 0;
    }
    if (!by_byte_ && (bytes % kWord != 0 || offset % kWord != 0)) split();
    if (by_byte_) {
      for (std::size_t i = offset; i < offset + bytes; ++i) touch(bytes_[i], access, now);
      return;
    }
    first_ = std::min(first_, offset / kWord);
    last_ = std::max(last_, (offset + bytes) / kWord);
    for (std::size_t i = offset / kWord; i < (offset + bytes) / kWord; ++i) {
      touch(words_[i], access, now);
    }
  }

  /// The pending writes there become those of `now`, which is their thread's.
  void complete(std::size_t offset, std::size_t bytes, const Touch& now) {
    const std::size_t unit = by_byte_ ? 1 : kWord;
    Cell* const cells = by_byte_ ? bytes_ : words_;
    for (std::size_t i = offset / unit; i < (offset + bytes) / unit; ++i) {
      Touch& write = cells[i].write;
      write.epoch = now.epoch;
      write.time = now.time;
      write.pending = false;
    }
  }

 private:
  static Cell* make(std::size_t cells) {  // zeros, which cost nothing until they are touched
    void* memory = std::calloc(cells, sizeof(Cell));
    if (!memory) throw std::bad_alloc();
    return static_cast<Cell*>(memory);
  }

  /// From words to bytes, for the rest of the block.
  void split() {
    for (std::size_t i = first_; i < last_; ++i) {
      std::fill_n(bytes_ + i * kWord, kWord, words_[i]);
    }
    by_byte_ = true;
  }

  static void touch(Cell& cell, Access access, const Touch& now) {
    const bool known = cell.write.epoch >= block_began;
    if (!known && (access == Access::load || access == Access::atomic)) {
      fail_thread("the " + std::string(name_of(access)) + " at " + source_text(anchor() + now.pc) +
                  " finds shared memory that no thread of the block has written");
    }
    if (!ordered(cell.write, now.thread) &&
        !(access == Access::atomic && cell.write.access() == Access::atomic)) {
      report(cell.write, now);
    }
    if (cell.write.pending && known) [[unlikely]]
      fail_pending(cell.write, now);
    if (access == Access::load) {
      if (ordered(cell.read, now.thread)) {
        cell.read = now;
      } else {
        cell.other_read = now;
      }
      return;
    }
    for (const Touch& read : {cell.read, cell.other_read}) {
      if (!ordered(read, now.thread)) report(read, now);
    }
    cell.write = now;
  }

  Cell* words_;
  Cell* bytes_;
  std::uint32_t block_ = 0;  // the block that the rest is about
  bool by_byte_ = false;
  std::size_t first_ = 0, last_ = 0;  // words that the block touched
};

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

void forget_shared(unsigned threads) {
  block_began = ++epoch;
  several_warps = threads > kWarpSize;
  first_in_warp.reset();
}

std::optional<WarpRace> race_in_warp() {
  if (!first_in_warp) return {};
  return WarpRace{first_in_warp->now.thread, first_in_warp->text()};
}

void order_block() { ++epoch; }

void order_lanes(unsigned warp, unsigned lanes) {
  std::array<std::uint32_t, kWarpSize> latest{};
  auto* const of_lane = &clocks[std::size_t{warp} * kWarpSize];
  for_each_lane(lanes, [&](unsigned lane) {
    of_lane[lane][lane] = own_time(warp * kWarpSize + lane);
    for (unsigned i = 0; i < kWarpSize; ++i) latest[i] = std::max(latest[i], of_lane[lane][i]);
  });
  for_each_lane(lanes, [&](unsigned lane) { of_lane[lane] = latest; });
}

#if defined(__SANITIZE_ADDRESS__)  // where not all accesses are reported
void watch_shared(const void*, SharedPart, std::size_t, std::size_t, Access) {}
void complete_async(SharedPart, std::size_t, std::size_t) {}
#else
namespace {

Shadow& fixed_shadow() {
  static Shadow shadow(static_shared.size());
  return shadow;
}
Shadow& dynamic_shadow() {
  static Shadow shadow(kMaxDynamicShared);
  return shadow;
}
Shadow& shadow_of(SharedPart part) {
  return part == SharedPart::fixed ? fixed_shadow() : dynamic_shadow();
}

[[gnu::always_inline]] inline Touch touch_now(const void* pc, Access access) {
  const unsigned thread = thread_number();
  return {.epoch = epoch,
          .time = own_time(thread),
          .pc = static_cast<std::int32_t>(static_cast<const char*>(pc) - anchor()),
          .thread = static_cast<std::uint16_t>(thread),
          .kind = static_cast<std::uint8_t>(access),
          .pending = access == Access::async};
}

}  // namespace

void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access) {
  shadow_of(part).watch(offset, bytes, access, touch_now(pc, access));
}

void complete_async(SharedPart part, std::size_t offset, std::size_t bytes) {
  shadow_of(part).complete(offset, bytes, touch_now(nullptr, Access::store));
}
#endif

}  // namespace ladder::host
