// Large arrays in host memory that are written before they are read.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace ladder {

/// Memory as it is; where it is large in huge pages, if the system gives them on request: to be
/// given small ones takes as long as to fill them. Throws std::bad_alloc.
void* allocate_pages(std::size_t bytes);
void free_pages(void* memory, std::size_t bytes) noexcept;

/// Leaves the elements of a vector as the memory is.
template <class T>
struct Uninitialized : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = Uninitialized<Other>;
  };
  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_pages(n * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t n) noexcept { free_pages(memory, n * sizeof(T)); }
  template <class U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};
template <class T>
using LargeArray = std::vector<T, Uninitialized<T>>;
using Doubles = LargeArray<double>;

}  // namespace ladder
