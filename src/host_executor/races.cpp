#include "host_executor/races.hpp"

#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"
#include "support/out_of_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace ladder::host {
namespace {

constexpr std::size_t kWord = 4;

/// The last accesses to a piece. Of its readers two are remembered, of different warps if possible.
struct Cell {
  Touch write, read, other_read;
};

[[noreturn, gnu::cold]] void fail_pending(const Touch& write, const Touch& now) {
  const bool reads = now.access() == Access::load;
  const bool own = write.thread == now.thread;
  fail_thread(std::string(reads ? "read" : "written") + " before cp_async_wait_group" +
              (own ? "" : " and a barrier") + ": the " + name_of(now.access()) + " at " +
              source_text(now.address()) + " finds the " + name_of(write.access()) + " of " +
              (own ? "this thread" : "thread " + thread_text(write.thread)) + " at " +
              source_text(write.address()) + " still on its way");
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

  static void touch(Cell& cell, Access access, const Touch& now) {
    const bool known = cell.write.epoch >= block_began;
    if (!known && (access == Access::load || access == Access::atomic)) {
      fail_thread("the " + std::string(name_of(access)) + " at " + source_text(now.address()) +
                  " finds shared memory that no thread of the block has written");
    }
    if (!ordered(cell.write, now.thread) &&
        !(access == Access::atomic && cell.write.access() == Access::atomic)) {
      report("shared", cell.write, now);
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
      if (!ordered(read, now.thread)) report("shared", read, now);
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

}  // namespace

void watch_shared(const void* pc, SharedPart part, std::size_t offset, std::size_t bytes,
                  Access access) {
  shadow_of(part).watch(offset, bytes, access, Touch::now(pc, access));
}

void complete_async(SharedPart part, std::size_t offset, std::size_t bytes) {
  shadow_of(part).complete(offset, bytes, Touch::now(nullptr, Access::store));
}
#endif

}  // namespace ladder::host
