// What the tests that are compiled as kernels share: memory, launches and orders of the threads.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "device/kernel.hpp"
#include "error_of.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/memory.hpp"

namespace ladder::test {

constexpr unsigned kAllLanes = 0xffffffffu;

/// Global memory, zeroed.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size)
      : size_(size), data_(static_cast<T*>(ladder::host::allocate(size * sizeof(T)))) {
    std::uninitialized_value_construct_n(data_, size);
  }
  ~Array() { ladder::host::release(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  operator T*() { return data_; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  std::size_t size_;
  T* data_;
};

/// Runs a kernel in one block of one dimension.
template <class... P, class... A>
void run_block(unsigned threads, void (*kernel)(P...), A&&... args) {
  launch(kernel, 1, threads, 0, nullptr, std::forward<A>(args)...);
}

/// Every test that is one of these runs under several orders of the threads.
class AnyOrder : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override { ladder::host::set_lane_order(GetParam()); }
  void TearDown() override { ladder::host::set_lane_order(0); }
};

}  // namespace ladder::test
