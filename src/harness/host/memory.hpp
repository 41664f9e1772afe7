// The executor's memory: allocations that stand for global memory, and the shared memory of the
// running block.
//
// Shared memory holds 0xFF bytes, which are NaN in every floating point type, when a block starts.
// Otherwise a kernel that forgot a barrier reads the right values the previous block left behind.
//
// A static `__shared__` variable is a thread_local one: all of them together are then one segment
// of the binary, PT_TLS, whose address can be found at run time. (Nothing else in the binary may be
// thread_local; do not link libstdc++ statically.) AddressSanitizer builds make them `static`
// instead, so that each has its redzones; there they are not poisoned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ladder::host {

/// Global memory: `bytes` bytes, 256-byte aligned as cudaMalloc's are, with a gap behind them.
/// Throws std::bad_alloc.
void* allocate(std::size_t bytes);
void release(void* pointer);

/// The most dynamic shared memory a block can have: 227 KiB, as on an H100.
inline constexpr std::size_t kMaxDynamicShared = 227 << 10;

/// The running block's dynamic shared memory, 128-byte aligned.
void* dynamic_shared();

/// Makes shared memory ready for a launch whose blocks have dynamic_bytes of it.
void prepare_shared(std::size_t dynamic_bytes);

/// Fills shared memory with 0xFF bytes. To be called before every block.
void poison_shared();

/// The static shared memory of every kernel in the binary.
///
/// Hundreds of kernels have megabytes of it and a block uses a little, so poison_shared fills only
/// the range that was written since the last time.
class StaticShared {
 public:
  /// Notes a write. Called for every write of a kernel, wherever it goes.
  void note_write(const void* address, std::size_t bytes) {
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(address) - base_;
    if (begin >= size_) return;
    if (begin < dirty_begin_) dirty_begin_ = begin;
    if (begin + bytes > dirty_end_) dirty_end_ = begin + bytes;
  }

  /// Finds the segment of the calling thread.
  void locate();

  void poison();

 private:
  std::uintptr_t base_ = 0;
  std::size_t size_ = 0;
  std::size_t dirty_begin_ = 0, dirty_end_ = 0;  // offsets from base_
};
extern StaticShared static_shared;

}  // namespace ladder::host
