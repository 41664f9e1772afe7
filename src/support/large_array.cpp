#include "support/large_array.hpp"

#include <sys/mman.h>

#include <cstdlib>

namespace ladder {
namespace {

constexpr std::size_t kHugePage = 2 << 20, kLarge = 2 * kHugePage;

}  // namespace

void* allocate_pages(std::size_t bytes) {
  if (bytes < kLarge) return ::operator new(bytes);
  const std::size_t whole = bytes + (kHugePage - bytes % kHugePage) % kHugePage;
  void* const memory = whole < bytes ? nullptr : std::aligned_alloc(kHugePage, whole);
  if (!memory) throw std::bad_alloc();
  madvise(memory, whole, MADV_HUGEPAGE);
  return memory;
}

void free_pages(void* memory, std::size_t bytes) noexcept {
  if (bytes < kLarge) return ::operator delete(memory);
  std::free(memory);
}

}  // namespace ladder
