#include "host_executor/memory.hpp"

#include "host_executor/per_block.hpp"
#include "support/out_of_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ladder::host {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;

constexpr std::size_t kMostAddresses = std::size_t{1} << 46;  // of global memory
constexpr std::size_t kFewestAddresses = std::size_t{1} << 32;
constexpr std::size_t kSlots = 1 << 13;  // of the addresses

std::size_t dynamic_bytes_in_use = 0;
PerLaunch per_launch_dynamic_bytes(dynamic_bytes_in_use);

[[noreturn]] void throw_no_memory(std::size_t bytes) {
  throw OutOfMemory(static_cast<double>(bytes), static_cast<double>(free_host_memory()),
                    "an array of the host executor's");
}

}  // namespace

StaticShared static_shared;
GlobalMemory global_memory;

#if defined(__SANITIZE_ADDRESS__)

void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  if (posix_memalign(&pointer, kAlignment, bytes) != 0) throw_no_memory(bytes);
  return pointer;
}

void release(void* pointer) { std::free(pointer); }

#else

// An allocation is in the middle of a slot of the addresses, or has slots of its own and as many
// before and behind it. Slots begin at other places of pages and caches each.
void* allocate(std::size_t bytes) {
  GlobalMemory& memory = global_memory;
  memory.reserve();
  if (bytes > memory.size_) throw_no_memory(bytes);
  const std::size_t slot = memory.size_ / kSlots;
  const std::size_t own = bytes <= slot / 4 ? 0 : bytes / slot + 1;
  const std::size_t needed = own == 0 ? 1 : 3 * own;
  std::size_t first = 0;  // of the first free ones
  for (const auto& [begin, other] : memory.allocations_) {
    if (first + needed <= other.first_slot) break;
    first = other.first_slot + other.slots;
  }
  if (first + needed > kSlots) throw_no_memory(bytes);
  const std::uintptr_t begin = memory.base_ + first * slot + (own == 0 ? slot / 2 : own * slot) +
                               first % 16 * (kPage + kAlignment);
  auto shadow = std::make_unique<GlobalShadow>(bytes);
  memory.allocations_[begin] = {begin + bytes, first, needed, std::move(shadow)};
  return reinterpret_cast<void*>(begin);
}

void release(void* pointer) {
  GlobalMemory& memory = global_memory;
  const auto found = memory.allocations_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == memory.allocations_.end()) return;
  const std::uintptr_t begin = found->first, end = found->second.end;
  const std::uintptr_t first = (begin + kPage - 1) & ~(kPage - 1), last = end & ~(kPage - 1);
  if (last > first + (1 << 18)) {  // back to the system
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  memory.allocations_.erase(found);
  memory.recent_.fill({});
}

#endif

void GlobalMemory::reserve() {
  for (std::size_t bytes = kMostAddresses; size_ == 0; bytes /= 2) {
    if (bytes < kFewestAddresses) throw_no_memory(kFewestAddresses);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    base_ = reinterpret_cast<std::uintptr_t>(memory);
    size_ = bytes;
    madvise(memory, bytes, MADV_NOHUGEPAGE);  // of which a kernel may touch few bytes each
    madvise(memory, bytes, MADV_DONTDUMP);
  }
}

GlobalMemory::Range GlobalMemory::find(std::uintptr_t address) const {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return {};
  const auto& [begin, allocation] = *std::prev(after);
  return {begin, allocation.end, allocation.shadow.get()};
}

std::string GlobalMemory::describe(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto after = allocations_.upper_bound(address);
  const Range before = find(address);
  const auto text = [](std::uintptr_t distance, const char* where, std::uintptr_t size) {
    return std::to_string(distance) + " bytes " + where + " an allocation of " +
           std::to_string(size) + " bytes";
  };
  if (address < before.end) {
    return text(before.end - address, "before the end of", before.end - before.begin);
  }
  if (after != allocations_.end() &&
      (before.end == 0 || after->first - address < address - before.end)) {
    return text(after->first - address, "before", after->second.end - after->first);
  }
  if (before.end == 0) return "in no allocation";
  return text(address - before.end, "past the end of", before.end - before.begin);
}

namespace {

char* map(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_no_memory(bytes);
  return static_cast<char*>(memory);
}

/// By slot, when a block has first had it.
std::vector<char*> dynamic_of, static_of;

/// What a block has written of static shared memory, by slot.
struct Written {
  std::size_t begin = SIZE_MAX, end = 0;
};
std::vector<Written> written_of;

unsigned resident = 0;  // the slot of the block whose static shared memory is in place

char* static_place() { return reinterpret_cast<char*>(static_shared.begin()); }

}  // namespace

void move_in(unsigned rank) {
  const unsigned slot = BlockVariable::slot(rank);
  dynamic_region = dynamic_of[slot];
  if (slot == resident) return;
  const auto [out_begin, out_end] = written_of[resident];
  if (out_begin < out_end) {
    std::memcpy(static_of[resident] + out_begin, static_place() + out_begin, out_end - out_begin);
  }
  const auto [begin, end] = written_of[slot];
  if (begin < end) std::memcpy(static_place() + begin, static_of[slot] + begin, end - begin);
  resident = slot;
}

void forget_static_writes() { written_of[BlockSlot::selected()] = {}; }

void note_static_write(std::size_t offset, std::size_t bytes) {
  Written& written = written_of[BlockSlot::selected()];
  written.begin = std::min(written.begin, offset);
  written.end = std::max(written.end, offset + bytes);
}

void begin_static_writes() { written_of[resident] = {0, static_shared.size()}; }

void* memory_of(unsigned rank, SharedPart part, std::size_t offset) {
  const unsigned slot = BlockVariable::slot(rank);
  if (part == SharedPart::dynamic) return dynamic_of[slot] + offset;
  return (slot == resident ? static_place() : static_of[slot]) + offset;
}

void* pointer_in(unsigned rank, SharedPart part, std::size_t offset) {
  if (part == SharedPart::dynamic) return dynamic_of[BlockVariable::slot(rank)] + offset;
  return static_place() + offset;
}

void* dynamic_shared() { return dynamic_region; }

std::size_t dynamic_shared_bytes() { return dynamic_bytes_in_use; }

namespace {
constexpr unsigned kDynamicAddress = 1024, kStaticAddress = 1 << 20;
}

unsigned shared_address(const void* pointer) {
  if (const auto dynamic = dynamic_shared_offset(pointer)) {
    return kDynamicAddress + static_cast<unsigned>(*dynamic);
  }
  return kStaticAddress + static_cast<unsigned>(static_shared.offset(pointer));
}

void* shared_pointer(unsigned address) {
  if (const unsigned rank = address >> kRankShift; rank != 0) {
    address &= (1u << kRankShift) - 1;
    const bool is_static = address >= kStaticAddress;
    return memory_of(rank - 1, is_static ? SharedPart::fixed : SharedPart::dynamic,
                     address - (is_static ? kStaticAddress : kDynamicAddress));
  }
  if (address < kStaticAddress) {
    return static_cast<char*>(dynamic_shared()) + address - kDynamicAddress;
  }
  return reinterpret_cast<void*>(static_shared.begin() + address - kStaticAddress);
}

void add_shared(unsigned blocks) {
  while (dynamic_of.size() < blocks) {
    dynamic_of.push_back(map(kDynamicGap + kMaxDynamicShared + kDynamicGap) + kDynamicGap);
  }
  while (blocks > 1 && static_of.size() < blocks) static_of.push_back(map(static_shared.size()));
  if (written_of.size() < blocks) written_of.resize(blocks);
}

void prepare_shared() {
#if !defined(__SANITIZE_ADDRESS__)
  static_shared.segment_ = find_module().thread_local_data;
#endif
  add_shared(1);
  dynamic_region = dynamic_of[0];
  resident = 0;
  written_of[0] = {};
}

void set_dynamic_shared(std::size_t dynamic_bytes) {
  dynamic_bytes_in_use = dynamic_bytes;
#if defined(__SANITIZE_ADDRESS__)
  char* region = static_cast<char*>(dynamic_shared());
  __asan_unpoison_memory_region(region, dynamic_bytes);
  __asan_poison_memory_region(region - kDynamicGap, kDynamicGap);
  __asan_poison_memory_region(region + dynamic_bytes,
                              kMaxDynamicShared + kDynamicGap - dynamic_bytes);
#endif
}

bool in_device_variable(const void* address) {
  static const Segment variables = find_module().variables;
  return reinterpret_cast<std::uintptr_t>(address) - variables.begin < variables.size;
}

std::string name_of_variable(const void* address) {
  static const std::vector<Symbol> symbols = find_symbols(find_module());
  for (const Symbol& symbol : symbols) {
    const auto& [begin, size] = symbol.variable;
    if (reinterpret_cast<std::uintptr_t>(address) - begin < size) return symbol.name;
  }
  return "";
}

}  // namespace ladder::host
