#include "harness/host/memory.hpp"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ladder::host {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xFF;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGap = 0;  // AddressSanitizer has gaps of its own
#else
constexpr std::size_t kGap = 256;
#endif

std::size_t dynamic_bytes_in_use = 0;

#if !defined(__SANITIZE_ADDRESS__)

// The system sets up a thread's copy of the segment when the thread first accesses it; reading this
// makes sure that it has.
thread_local volatile char segment_probe;

struct Segment {
  void* address = nullptr;
  std::size_t size = 0;
};

// dl_iterate_phdr's callback: stores the PT_TLS segment of the module that holds this function.
int find_segment(dl_phdr_info* module, std::size_t, void* result) {
  const auto self = reinterpret_cast<ElfW(Addr)>(&find_segment);
  const ElfW(Phdr)* tls = nullptr;
  bool ours = false;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module->dlpi_phdr[i];
    if (header.p_type == PT_TLS) tls = &header;
    if (header.p_type == PT_LOAD && self - module->dlpi_addr - header.p_vaddr < header.p_memsz) {
      ours = true;
    }
  }
  if (!ours) return 0;
  if (tls) *static_cast<Segment*>(result) = {module->dlpi_tls_data, tls->p_memsz};
  return 1;  // stop looking
}

#endif

}  // namespace

StaticShared static_shared;

void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  if (bytes > std::numeric_limits<std::size_t>::max() - kGap ||
      posix_memalign(&pointer, kAlignment, bytes + kGap) != 0) {
    throw std::bad_alloc();
  }
  return pointer;
}

void release(void* pointer) { std::free(pointer); }

void* dynamic_shared() {
  static void* const region = [] {
    void* memory = mmap(nullptr, kMaxDynamicShared, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }();
  return region;
}

void prepare_shared(std::size_t dynamic_bytes) {
  static_shared.locate();
  dynamic_bytes_in_use = dynamic_bytes;
#if defined(__SANITIZE_ADDRESS__)
  char* region = static_cast<char*>(dynamic_shared());
  __asan_unpoison_memory_region(region, dynamic_bytes);
  __asan_poison_memory_region(region + dynamic_bytes, kMaxDynamicShared - dynamic_bytes);
#endif
}

void poison_shared() {
  static_shared.poison();
  if (dynamic_bytes_in_use > 0) std::memset(dynamic_shared(), kPoison, dynamic_bytes_in_use);
}

void StaticShared::locate() {
#if !defined(__SANITIZE_ADDRESS__)
  static_cast<void>(segment_probe);
  Segment segment;
  dl_iterate_phdr(&find_segment, &segment);
  const auto base = reinterpret_cast<std::uintptr_t>(segment.address);
  if (base == base_) return;
  base_ = base;
  size_ = segment.size;
  dirty_begin_ = 0;  // of a segment seen for the first time, everything
  dirty_end_ = size_;
#endif
}

void StaticShared::poison() {
  dirty_end_ = std::min(dirty_end_, size_);
  if (dirty_begin_ < dirty_end_) {
    std::memset(reinterpret_cast<void*>(base_ + dirty_begin_), kPoison, dirty_end_ - dirty_begin_);
  }
  dirty_begin_ = size_;
  dirty_end_ = 0;
}

}  // namespace ladder::host
