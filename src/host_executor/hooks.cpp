// The kernels' memory accesses, reported by the compiler, and checked here: what is out of bounds,
// misaligned or undefined ends the launch.
//
// Kernels are compiled with -fsanitize=thread, with which the compiler puts a call in front of
// every load and store that another thread could see, and with -fsanitize-coverage=trace-pc, which
// does so at the start of every basic block. ThreadSanitizer's library is not linked: this file
// takes its place. The executor's own sources are compiled without it.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/global_races.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/races.hpp"
#include "host_executor/source.hpp"
#include "host_executor/steps.hpp"
#include "host_executor/touches.hpp"
#include "host_executor/warpgroup.hpp"

namespace ladder::host {
namespace {

/// Addresses that no variable has; null pointers with an index.
constexpr std::uintptr_t kNull = 64 << 10;

/// How far beyond the static shared memory an address still means it.
constexpr std::size_t kNearStatic = 4096;

[[noreturn]] void fail_access(const void* pc, const void* address, std::size_t bytes, Access access,
                              const std::string& why) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  fail_thread("the " + std::string(name_of(access)) + " of " + std::to_string(bytes) +
              " bytes at " + source_text(pc) + " " + why + " (address " + text + ")");
}

/// Ends the launch if the access to a `__device__` variable is no load. (Under AddressSanitizer shared
/// memory looks like one.)
void expect_load([[maybe_unused]] const void* pc, [[maybe_unused]] const void* address,
                 [[maybe_unused]] std::size_t bytes, [[maybe_unused]] Access access) {
#if !defined(__SANITIZE_ADDRESS__)
  if (access == Access::load) return;
  const std::string name = name_of_variable(address);
  fail_access(pc, address, bytes, access,
              "changes " +
                  (name.empty() ? "a __device__ variable" : "the __device__ variable " + name) +
                  ": it outlives the launch, and all launches share it, on whatever stream; state "
                  "belongs in the bytes of Call::state (src/device/registration.hpp)");
#endif
}

/// Checks and records an access to shared memory, at an offset into the part of it that has `size`
/// bytes.
void access_shared(const void* pc, const void* address, SharedPart part, std::size_t offset,
                   std::size_t size, std::size_t bytes, Access access) {
  if (offset >= size || bytes > size - offset) {
    fail_access(pc, address, bytes, access,
                "is outside shared memory: at byte " +
                    std::to_string(static_cast<std::ptrdiff_t>(offset)) + " of " +
                    std::to_string(size));
  }
  watch_shared(pc, part, offset, bytes, access);
  if (counting) trace_access(pc, address, static_cast<unsigned>(bytes), Space::shared, access);
}

[[gnu::always_inline]] inline void check_alignment(const void* pc, const void* address,
                                                   std::size_t bytes, Access access) {
  if (std::has_single_bit(bytes) && reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    fail_access(pc, address, bytes, access, "is misaligned");
  }
}

/// `meets`: a volatile or atomic access by which blocks may meet.
[[gnu::always_inline]] inline void access(const void* pc, const void* address, std::size_t bytes,
                                          Access kind, bool is_volatile = false,
                                          bool meets = true) {
  if (!in_kernel()) return;
  if (is_volatile || kind == Access::atomic) poll(pc, address);
  if (kind == Access::store && (is_volatile || global_memory.contains(address))) ++changes;
  if (global_memory.contains(address)) {
    const GlobalMemory::Range* const range = global_memory.find(address, bytes, pc);
    if (!range) {
      fail_access(pc, address, bytes, kind, "is out of bounds: " + global_memory.describe(address));
    }
    check_alignment(pc, address, bytes, kind);
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) - range->begin;
    range->shadow->watch(pc, offset, bytes, kind, is_volatile);
    if (meets && (is_volatile || kind == Access::atomic)) meet_blocks(address, kind);
    if (counting) trace_access(pc, address, static_cast<unsigned>(bytes), Space::global, kind);
  } else if (const std::size_t fixed = static_shared.offset(address);
             fixed < static_shared.size() + kNearStatic) {
    check_alignment(pc, address, bytes, kind);
    access_shared(pc, address, SharedPart::fixed, fixed, static_shared.size(), bytes, kind);
  } else if (const auto dynamic = dynamic_shared_offset(address)) {
    check_alignment(pc, address, bytes, kind);
    access_shared(pc, address, SharedPart::dynamic, static_cast<std::size_t>(*dynamic),
                  dynamic_shared_bytes(), bytes, kind);
  } else if (in_device_variable(address)) {
    expect_load(pc, address, bytes, kind);
    if (counting) trace_access(pc, address, static_cast<unsigned>(bytes), Space::global, kind);
  } else if (reinterpret_cast<std::uintptr_t>(address) < kNull) {
    fail_access(pc, address, bytes, kind, "is at a null pointer");
  } else if (watches_registers) {
    touch_registers(pc, address, bytes, kind);
  }
}

void access_volatile(const void* pc, const void* address, std::size_t bytes, Access kind) {
  access(pc, address, bytes, kind, true);
}

/// An access of a type that is less aligned than it is large, a struct say: a GPU makes several.
void access_in_pieces(const void* pc, void* address, std::size_t bytes, Access kind) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::size_t piece = (begin | bytes) % 16 == 0 ? 16 : (begin | bytes) % 4 == 0 ? 4 : 1;
  for (std::size_t i = 0; i < bytes; i += piece) {
    access(pc, static_cast<char*>(address) + i, piece, kind);
  }
}

}  // namespace

void note_access(const void* pc, const void* address, std::size_t bytes, Access kind) {
  access(pc, address, bytes, kind);
}

void note_strong(const void* pc, const void* address, std::size_t bytes, Access kind) {
  access(pc, address, bytes, kind, true, false);
}

void note_copy(const void* pc, const void* shared, const void* global, std::size_t bytes,
               std::size_t valid_bytes) {
  // Shared memory first: it is what all lanes access, also those that read nothing.
  access(pc, shared, bytes, Access::async);
  if (counting) trace_source(valid_bytes > 0 ? global : nullptr);
  if (valid_bytes > 0) access(pc, global, valid_bytes, Access::load);
}

SharedRange shared_range(const void* pc, const void* address, std::size_t bytes, Access kind) {
  SharedRange range{SharedPart::fixed, static_shared.offset(address)};
  std::size_t size = static_shared.size();
  if (range.offset >= size) {
    const auto dynamic = dynamic_shared_offset(address);
    if (!dynamic) fail_access(pc, address, bytes, kind, "is outside shared memory");
    range = {SharedPart::dynamic, static_cast<std::size_t>(*dynamic)};
    size = dynamic_shared_bytes();
  }
  if (range.offset >= size || bytes > size - range.offset) {
    fail_access(pc, address, bytes, kind,
                "is outside shared memory: at byte " +
                    std::to_string(static_cast<std::ptrdiff_t>(range.offset)) + " of " +
                    std::to_string(size));
  }
  return range;
}

void note_global(const void* pc, const void* address, std::size_t bytes, Access kind) {
  if (global_memory.contains(address)) {
    if (const GlobalMemory::Range* const range = global_memory.find(address, bytes, pc)) {
      const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) - range->begin;
      return range->shadow->watch(pc, offset, bytes, kind, false);
    }
  }
  if (in_device_variable(address)) return expect_load(pc, address, bytes, kind);
  fail_access(pc, address, bytes, kind, "is out of bounds: " + global_memory.describe(address));
}

void note_written(const void* address, std::size_t bytes) {
  const GlobalMemory::Range* const range = global_memory.find(address, bytes, nullptr);
  range->shadow->complete(reinterpret_cast<std::uintptr_t>(address) - range->begin, bytes);
}

void note_arrival(const void* address, std::size_t bytes) {
  const std::size_t fixed = static_shared.offset(address);
  if (fixed < static_shared.size()) {
    complete_async(SharedPart::fixed, fixed, bytes);
  } else if (const auto dynamic = dynamic_shared_offset(address)) {
    complete_async(SharedPart::dynamic, static_cast<std::size_t>(*dynamic), bytes);
  }
}

}  // namespace ladder::host

// The entry points, as the compiler names and declares them.

#define LADDER_HOOK(name, function, kind, bytes)                                         \
  extern "C" void name(void* p) {                                                        \
    ladder::host::function(__builtin_return_address(0), p, bytes, ladder::Access::kind); \
  }
#define LADDER_HOOKS(function, prefix, bytes)                      \
  LADDER_HOOK(__tsan_##prefix##read##bytes, function, load, bytes) \
  LADDER_HOOK(__tsan_##prefix##write##bytes, function, store, bytes)

LADDER_HOOKS(access, , 1)
LADDER_HOOKS(access, , 2)
LADDER_HOOKS(access, , 4)
LADDER_HOOKS(access, , 8)
LADDER_HOOKS(access, , 16)
LADDER_HOOKS(access_volatile, volatile_, 1)
LADDER_HOOKS(access_volatile, volatile_, 2)
LADDER_HOOKS(access_volatile, volatile_, 4)
LADDER_HOOKS(access_volatile, volatile_, 8)
LADDER_HOOKS(access_volatile, volatile_, 16)
LADDER_HOOKS(access_in_pieces, unaligned_, 2)
LADDER_HOOKS(access_in_pieces, unaligned_, 4)
LADDER_HOOKS(access_in_pieces, unaligned_, 8)
LADDER_HOOKS(access_in_pieces, unaligned_, 16)

extern "C" void __tsan_read_range(void* p, std::size_t bytes) {
  ladder::host::access_in_pieces(__builtin_return_address(0), p, bytes, ladder::Access::load);
}
extern "C" void __tsan_write_range(void* p, std::size_t bytes) {
  ladder::host::access_in_pieces(__builtin_return_address(0), p, bytes, ladder::Access::store);
}

extern "C" void __sanitizer_cov_trace_pc() {
  ladder::host::take_step(__builtin_return_address(0));
  if (ladder::host::counting && ladder::host::in_kernel()) {
    ladder::host::trace_block(__builtin_return_address(0));
  }
}

// Not the kernels' memory: what the C++ library and the compiler do in the code around kernels, a
// shared_ptr's count and the guard of a static variable.
extern "C" int __tsan_atomic32_fetch_add(volatile int* p, int value, int) {
  return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}
extern "C" char __tsan_atomic8_load(const volatile char* p, int) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_init() {}
