// Large arrays in huge pages: before this, page faults were half of the time in which a sweep made
// inputs and their answers. Replaces operator new of the program that links it.
#include <sys/mman.h>

#include <cstdlib>
#include <new>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void* operator new(std::size_t bytes) {
  constexpr std::size_t kHugePage = 2 << 20;
  const bool large = bytes >= 2 * kHugePage;
  if (large) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory =
      large ? std::aligned_alloc(kHugePage, bytes) : std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  if (large) madvise(memory, bytes, MADV_HUGEPAGE);  // only speed is lost where it is refused
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
