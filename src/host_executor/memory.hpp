// The executor's memory: allocations that stand for global memory, and the shared memory of the
// running block.
//
// A static `__shared__` variable is a thread_local one: all of them together are then one segment
// of the binary, PT_TLS, whose address can be found at run time. (Nothing else in the binary may be
// thread_local; do not link libstdc++ statically.) AddressSanitizer builds make them `static`
// instead, so that each has its redzones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "host_executor/global_races.hpp"
#include "host_executor/module.hpp"
#include "host_executor/races.hpp"

namespace ladder::host {

/// Global memory: `bytes` bytes, 256-byte aligned as cudaMalloc's are. Its pages are the system's
/// until they are touched. Throws std::bad_alloc.
void* allocate(std::size_t bytes);
void release(void* pointer);

/// The addresses that allocations come from: a large part of the address space, set aside at the
/// first allocation. Between two allocations are gigabytes, and as much as the larger of them: an
/// index that is wrong, or has overflowed in 32 bits, meets no other allocation. (In builds for
/// AddressSanitizer allocations are its own, and this is empty.)
class GlobalMemory {
 public:
  struct Range {
    std::uintptr_t begin = 0, end = 0;
    GlobalShadow* shadow = nullptr;
  };

  bool contains(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < size_;
  }

  /// The allocation that all the bytes belong to, if there is one. pc only helps to guess which.
  const Range* find(const void* address, std::size_t bytes, const void* pc) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    Range& guess = recent_[reinterpret_cast<std::uintptr_t>(pc) / 4 % kRecent];
    if (begin >= guess.begin && begin + bytes <= guess.end) return &guess;
    guess = find(begin);
    return begin >= guess.begin && begin + bytes <= guess.end ? &guess : nullptr;
  }

  /// Where an address is that belongs to no allocation: "12 bytes past the end of an allocation of
  /// 400 bytes".
  std::string describe(const void* address) const;

 private:
  friend void* allocate(std::size_t bytes);
  friend void release(void* pointer);

  struct Allocation {
    std::uintptr_t end;
    std::size_t first_slot, slots;
    std::unique_ptr<GlobalShadow> shadow;
  };
  static constexpr std::size_t kRecent = 64;

  void reserve();
  Range find(std::uintptr_t address) const;  // the last allocation that begins at or before it

  std::uintptr_t base_ = 0;
  std::size_t size_ = 0;
  std::map<std::uintptr_t, Allocation> allocations_;  // by where they begin
  std::array<Range, kRecent> recent_;
};
extern GlobalMemory global_memory;

/// The most dynamic shared memory a block can have: 227 KiB, as on an H100.
inline constexpr std::size_t kMaxDynamicShared = 227 << 10;

/// The running block's dynamic shared memory, 128-byte aligned.
void* dynamic_shared();

/// Its size in bytes.
std::size_t dynamic_shared_bytes();

/// Where an address is from the start of dynamic shared memory, if it is in it or near it. Asked at
/// every access: inline, or its result would go through memory.
inline constexpr std::size_t kDynamicGap = 128 << 10;  // around dynamic shared memory
inline char* dynamic_region = nullptr;                 // the running block's
inline std::optional<std::ptrdiff_t> dynamic_shared_offset(const void* address) {
  const std::ptrdiff_t offset = static_cast<const char*>(address) - dynamic_region;
  constexpr auto kBefore = static_cast<std::ptrdiff_t>(kDynamicGap);
  constexpr auto kBehind = static_cast<std::ptrdiff_t>(kMaxDynamicShared + kDynamicGap);
  if (offset < -kBefore || offset >= kBehind) return std::nullopt;
  return offset;
}

/// A number for a place in shared memory, as instructions take it, and back. Dynamic shared memory
/// lies in the 256 KiB that a wgmma descriptor can name, static shared memory behind. An address in
/// the cluster has the rank above it, plus one: a block's own are addresses in the cluster too.
unsigned shared_address(const void* pointer);
void* shared_pointer(unsigned address);
inline constexpr unsigned kRankShift = 24;

/// Makes shared memory ready: nothing is in progress.
void prepare_shared();
/// For as many blocks.
void add_shared(unsigned blocks);
/// The selected launch's blocks have so many bytes of dynamic shared memory.
void set_dynamic_shared(std::size_t bytes);

// Blocks that have begun have dynamic shared memory of their own each. Static shared memory is one
// place for all of them, and holds the running block's.

/// The block of this rank runs.
void move_in(unsigned rank);
/// The selected block begins: nothing of it has to be moved.
void forget_static_writes();
/// It writes there; what it has not written is not moved.
void note_static_write(std::size_t offset, std::size_t bytes);
/// From now on static writes are noted. The block whose static shared memory is in place may have
/// written anywhere.
void begin_static_writes();
/// Where the block of this rank has its shared memory at the moment.
void* memory_of(unsigned rank, SharedPart part, std::size_t offset);
/// And where it finds it when it runs.
void* pointer_in(unsigned rank, SharedPart part, std::size_t offset);

/// The static shared memory of every kernel in the binary.
class StaticShared {
 public:
  /// Where an address is from the start of the segment; beyond its size if it isn't in it.
  std::size_t offset(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - segment_.begin;
  }
  std::size_t size() const { return segment_.size; }
  std::uintptr_t begin() const { return segment_.begin; }

 private:
  friend void prepare_shared();
  Segment segment_;
};
extern StaticShared static_shared;

/// Whether an address is a `__device__` variable's; its name, "" if the binary has no symbols.
bool in_device_variable(const void* address);
std::string name_of_variable(const void* address);

}  // namespace ladder::host
