// The kernels' memory accesses, reported by the compiler.
//
// Kernels are compiled with -fsanitize=thread, with which the compiler puts a call in front of
// every load and store that another thread could see. ThreadSanitizer's library is not linked: this
// file takes its place. The executor's own sources are compiled without it.
#include <cstddef>

#include "harness/host/executor.hpp"
#include "harness/host/memory.hpp"

namespace ladder::host {
namespace {

enum class Access { load, store, atomic };

/// One access of the running thread; pc is the address of the instruction after the report.
[[gnu::always_inline]] inline void access([[maybe_unused]] const void* pc, const void* address,
                                          std::size_t bytes, Access kind) {
  if (kind != Access::load) static_shared.note_write(address, bytes);
}

}  // namespace

void note_atomic(const void* pc, const void* address, std::size_t bytes) {
  access(pc, address, bytes, Access::atomic);
}

}  // namespace ladder::host

// The entry points, as the compiler names and declares them.

#define LADDER_REPORT(bytes, kind) \
  ladder::host::access(__builtin_return_address(0), p, bytes, ladder::host::Access::kind)

#define LADDER_ACCESS_HOOKS(name, bytes)                                              \
  extern "C" void __tsan_##name##read##bytes(void* p) { LADDER_REPORT(bytes, load); } \
  extern "C" void __tsan_##name##write##bytes(void* p) { LADDER_REPORT(bytes, store); }

LADDER_ACCESS_HOOKS(, 1)
LADDER_ACCESS_HOOKS(, 2)
LADDER_ACCESS_HOOKS(, 4)
LADDER_ACCESS_HOOKS(, 8)
LADDER_ACCESS_HOOKS(, 16)
LADDER_ACCESS_HOOKS(unaligned_, 2)
LADDER_ACCESS_HOOKS(unaligned_, 4)
LADDER_ACCESS_HOOKS(unaligned_, 8)
LADDER_ACCESS_HOOKS(unaligned_, 16)

extern "C" void __tsan_read_range(void* p, std::size_t bytes) { LADDER_REPORT(bytes, load); }
extern "C" void __tsan_write_range(void* p, std::size_t bytes) { LADDER_REPORT(bytes, store); }

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
