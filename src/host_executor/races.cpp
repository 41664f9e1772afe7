#include "host_executor/races.hpp"

#include "host_executor/cluster_order.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"
#include "support/out_of_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ladder::host {
namespace {

constexpr std::size_t kWord = 4;

/// The last accesses to a piece. Of its readers two are remembered, of different warps if possible.
struct Cell {
  Touch write, read, other_read;
};

bool is_read(Access access) {
  return access == Access::load || access == Access::bulk_read || access == Access::product;
}

[[noreturn, gnu::cold]] void fail_pending(const Touch& write, const Touch& now) {
  const bool reads = is_read(now.access());
  const bool own = write.thread == now.thread;
  if (write.access() != Access::async) {
    fail_thread(std::string(reads ? "read" : "written") + " before mbarrier_wait: the " +
                name_of(now.access()) + " at " + source_text(now.address()) + " finds the " +
                name_of(write.access()) + " at " + source_text(write.address()) +
                " still on its way");
  }
  fail_thread(std::string(reads ? "read" : "written") + " before cp_async_wait_group" +
              (own ? "" : " and a barrier") + ": the " + name_of(now.access()) + " at " +
              source_text(now.address()) + " finds the " + name_of(write.access()) + " of " +
              (own ? "this thread" : name_of(write.thread)) + " at " +
              source_text(write.address()) + " still on its way");
}

/// When a thread last let asynchronous reads see what it had stored.
struct ProxyFence {
  Epoch epoch;
  std::uint32_t time;
};
std::vector<ProxyFence> proxy_fences;  // by thread
std::vector<ProxyFence> init_fences;   // for mbarriers alone; empty if there are none
PerBlock per_block_proxy_fences(proxy_fences);
PerBlock per_block_init_fences(init_fences);

/// The running thread reads asynchronously what was stored: the storing thread has fenced it, or
/// this one has, beyond a barrier.
void expect_fence(const Touch& write, bool is_mbarrier = false) {
  if (write.access() == Access::bulk || write.access() == Access::pushed) return;
  const ProxyFence& own = proxy_fences[thread_number()];
  const auto is_fenced = [&](const std::vector<ProxyFence>& fences) {
    const ProxyFence& of_writer = fences[write.thread];
    return of_writer.epoch > write.epoch ||
           (of_writer.epoch == write.epoch && of_writer.time >= write.time);
  };
  if (is_fenced(proxy_fences) || own.epoch > write.epoch) return;
  if (is_mbarrier && !init_fences.empty() && is_fenced(init_fences)) return;
  fail_thread("read asynchronously without fence_proxy_async: the " +
              std::string(name_of(write.access())) + " of " + name_of(write.thread) + " at " +
              source_text(write.address()) + " need not be seen");
}

/// An asynchronous read that is not done.
struct ReadInFlight {
  std::uint64_t number;
  SharedPart part;
  std::size_t begin, end;
  const void* pc;
  Access access;
};
std::vector<ReadInFlight> reads_in_flight;
PerBlock per_block_reads(reads_in_flight);
std::uint64_t reads_begun = 0;

void expect_not_read(SharedPart part, std::size_t offset, std::size_t bytes, const void* pc,
                     Access access) {
  for (const ReadInFlight& read : reads_in_flight) {
    if (read.part != part || offset >= read.end || offset + bytes <= read.begin) continue;
    fail_thread("overwritten while it is read: the " + std::string(name_of(access)) + " at " +
                source_text(pc) + " finds the " + name_of(read.access) + " at " +
                source_text(read.pc) + " under way");
  }
}

bool may_be_unwritten = false;  // what is loaded now

/// What is known of one part of shared memory: a cell per word, or per byte once a block has
/// accessed less than a word.
class Shadow {
 public:
  explicit Shadow(std::size_t bytes)
      : words_(make(bytes / kWord + 1)), bytes_(make(bytes + kWord)) {}

  void watch(std::size_t offset, std::size_t bytes, Access access, const Touch& now) {
    watch(offset, bytes, access, now, [&](const Touch& past) { return ordered(past, now.thread); });
  }

  /// The same, with a function that tells of accesses of the past whether they come before.
  template <class IsOrdered>
  [[gnu::always_inline]] void watch(std::size_t offset, std::size_t bytes, Access access,
                                    const Touch& now, IsOrdered is_ordered) {
    if (block_ != block_began) {
      block_ = block_began;
      by_byte_ = false;
      first_ = ~std::size_t{0};
      last_ = 0;
    }
    if (!by_byte_ && (bytes % kWord != 0 || offset % kWord != 0)) split();
    if (by_byte_) {
      for (std::size_t i = offset; i < offset + bytes; ++i) {
        touch(bytes_[i], access, now, is_ordered);
      }
      return;
    }
    first_ = std::min(first_, offset / kWord);
    last_ = std::max(last_, (offset + bytes) / kWord);
    for (std::size_t i = offset / kWord; i < (offset + bytes) / kWord; ++i) {
      touch(words_[i], access, now, is_ordered);
    }
  }

  /// Calls visit(cell) for all cells of a range.
  template <class F>
  void for_each(std::size_t offset, std::size_t bytes, F visit) {
    const std::size_t unit = by_byte_ ? 1 : kWord;
    Cell* const cells = by_byte_ ? bytes_ : words_;
    for (std::size_t i = offset / unit; i < (offset + bytes) / unit; ++i) visit(cells[i]);
  }

  /// The pending writes there become those of `now`, which is their thread's.
  void complete(std::size_t offset, std::size_t bytes, const Touch& now) {
    for_each(offset, bytes, [&](Cell& cell) {
      cell.write.epoch = now.epoch;
      cell.write.time = now.time;
      cell.write.pending = false;
    });
  }

 private:
  static Cell* make(std::size_t cells) {  // zeros, which cost nothing until they are touched
    void* memory = std::calloc(cells, sizeof(Cell));
    if (!memory) {
      throw OutOfMemory(static_cast<double>(cells * sizeof(Cell)),
                        static_cast<double>(free_host_memory()), "the search for races");
    }
    return static_cast<Cell*>(memory);
  }

  /// From words to bytes, for the rest of the block.
  void split() {
    for (std::size_t i = first_; i < last_; ++i) {
      std::fill_n(bytes_ + i * kWord, kWord, words_[i]);
    }
    by_byte_ = true;
  }

  template <class IsOrdered>
  [[gnu::always_inline]] static void touch(Cell& cell, Access access, const Touch& now,
                                           IsOrdered is_ordered) {
    const bool known = cell.write.epoch >= block_began;
    if (!known && (is_read(access) || access == Access::atomic) && !may_be_unwritten) {
      fail_thread("the " + std::string(name_of(access)) + " at " + source_text(now.address()) +
                  " finds shared memory that no thread of the block has written");
    }
    if (!is_ordered(cell.write) &&
        !(access == Access::atomic && cell.write.access() == Access::atomic)) {
      report("shared", cell.write, now);
    }
    if (cell.write.pending && known) [[unlikely]]
      fail_pending(cell.write, now);
    if (access == Access::bulk_read || access == Access::product) return expect_fence(cell.write);
    if (access == Access::load) {
      if (is_ordered(cell.read)) {
        cell.read = now;
      } else {
        cell.other_read = now;
      }
      return;
    }
    for (const Touch& read : {cell.read, cell.other_read}) {
      if (!is_ordered(read)) report("shared", read, now);
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

MayBeUnwritten::MayBeUnwritten() { may_be_unwritten = true; }
MayBeUnwritten::~MayBeUnwritten() { may_be_unwritten = false; }

#if defined(__SANITIZE_ADDRESS__)  // where not all accesses are reported
void watch_shared(const void*, SharedPart, std::size_t, std::size_t, Access) {}
void complete_async(SharedPart, std::size_t, std::size_t) {}
void complete_bulk(SharedPart, std::size_t, std::size_t) {}
void expect_landed(const void*, SharedPart, std::size_t, std::size_t, Access) {}
void fence_proxy() {}
void expect_fenced(SharedPart, std::size_t, std::size_t, bool) {}
void fence_mbarrier_inits() {}
void watch_remote(const void*, SharedPart, std::size_t, std::size_t, Access, const RemoteThread&) {}
void expect_known(const void*, SharedPart, std::size_t, std::size_t, const RemoteThread&) {}
std::uint64_t begin_read(const void*, SharedPart, std::size_t, std::size_t, Access) { return 0; }
void end_read(std::uint64_t, unsigned) {}
void reset_reads() {}
void expect_no_reads() {}
#else
namespace {

std::unique_ptr<Shadow> fixed_shadow, dynamic_shadow;  // when a block has first needed it
PerBlock per_block_fixed_shadow(fixed_shadow);
PerBlock per_block_dynamic_shadow(dynamic_shadow);

Shadow& shadow_of(SharedPart part) {
  std::unique_ptr<Shadow>& shadow = part == SharedPart::fixed ? fixed_shadow : dynamic_shadow;
  if (!shadow) [[unlikely]] {
    shadow = std::make_unique<Shadow>(part == SharedPart::fixed ? static_shared.size()
                                                                : kMaxDynamicShared);
  }
  return *shadow;
}

/// Of a block that is not the only one that has begun.
[[gnu::noinline]] void watch_beside_others(SharedPart part, std::size_t offset, std::size_t bytes,
                                           const Touch& now) {
  if (part == SharedPart::fixed && !is_read(now.access())) note_static_write(offset, bytes);
  if (!in_cluster) return shadow_of(part).watch(offset, bytes, now.access(), now);
  shadow_of(part).watch(offset, bytes, now.access(), now, [&](const Touch& past) {
    return is_remote(past.thread) ? ordered_after_remote(past, now.thread)
                                  : ordered(past, now.thread);
  });
}

}  // namespace

void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access) {
  if (!reads_in_flight.empty() && !is_read(access)) [[unlikely]] {
    expect_not_read(part, offset, bytes, pc, access);
  }
  const Touch now = Touch::now(pc, access);
  if (in_cluster || interleaved) [[unlikely]]
    return watch_beside_others(part, offset, bytes, now);
  shadow_of(part).watch(offset, bytes, access, now);
}

void watch_remote(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access, const RemoteThread& by) {
  if (!is_read(access)) {
    expect_not_read(part, offset, bytes, pc, access);
    if (part == SharedPart::fixed) note_static_write(offset, bytes);
  }
  const unsigned thread = is_read(access) ? remote_reader(by.rank()) : remote_writer(by.rank());
  shadow_of(part).watch(offset, bytes, access, Touch::now(pc, access, thread, false),
                        [&](const Touch& past) { return by.knows(past, !is_read(access)); });
}

void expect_known(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  const RemoteThread& by) {
  shadow_of(part).for_each(offset, bytes, [&](const Cell& cell) {
    if (by.knows(cell.write, false)) return;
    report("shared", cell.write, Touch::now(pc, Access::load, remote_reader(by.rank()), false));
  });
}

void complete_async(SharedPart part, std::size_t offset, std::size_t bytes) {
  shadow_of(part).complete(offset, bytes, Touch::now(nullptr, Access::store));
}

void complete_bulk(SharedPart part, std::size_t offset, std::size_t bytes) {
  shadow_of(part).for_each(offset, bytes, [](Cell& cell) {
    cell.write.epoch = epoch;
    cell.write.pending = false;
  });
}

void expect_landed(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                   Access access) {
  shadow_of(part).for_each(offset, bytes, [&](const Cell& cell) {
    if (!cell.write.pending || cell.write.epoch < block_began) return;
    fail_pending(cell.write, Touch::now(pc, access));
  });
}

void fence_proxy() {
  const unsigned thread = thread_number();
  proxy_fences[thread] = {epoch, own_time(thread)};
  tick(thread);
}

void fence_mbarrier_inits() {
  const unsigned thread = thread_number();
  init_fences.resize(kMaxThreads);
  init_fences[thread] = {epoch, own_time(thread)};
  tick(thread);
}

void expect_fenced(SharedPart part, std::size_t offset, std::size_t bytes, bool is_mbarrier) {
  shadow_of(part).for_each(offset, bytes,
                           [&](const Cell& cell) { expect_fence(cell.write, is_mbarrier); });
}

std::uint64_t begin_read(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                         Access access) {
  reads_in_flight.push_back({++reads_begun, part, offset, offset + bytes, pc, access});
  return reads_begun;
}

void end_read(std::uint64_t number, unsigned reader) {
  const auto read = std::find_if(reads_in_flight.begin(), reads_in_flight.end(),
                                 [&](const ReadInFlight& r) { return r.number == number; });
  const Touch now = Touch::now(read->pc, read->access, reader, false);
  shadow_of(read->part).for_each(read->begin, read->end - read->begin, [&](Cell& cell) {
    (ordered(cell.read, reader) ? cell.read : cell.other_read) = now;
  });
  reads_in_flight.erase(read);
}

void reset_reads() {
  proxy_fences.assign(clock_size, {});
  init_fences.clear();
  reads_in_flight.clear();
  may_be_unwritten = false;  // a thread that fails destroys nothing
}

void expect_no_reads() {
  if (reads_in_flight.empty()) return;
  const ReadInFlight& read = reads_in_flight.front();
  fail_thread("the block ends while the " + std::string(name_of(read.access)) + " at " +
              source_text(read.pc) + " may still read its shared memory: nobody has waited for it");
}
#endif

}  // namespace ladder::host
