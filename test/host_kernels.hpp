// What the tests that are compiled as kernels share: memory, launches, and the messages of errors.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "device/kernel.hpp"
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

/// The message of the error that work() ends with; "" if it does not throw.
template <class F>
std::string error_of(F work) {
  try {
    work();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not contain \"" << part << '"';
}

/// Every test that is one of these runs under several orders of the threads.
class AnyOrder : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override { ladder::host::set_lane_order(GetParam()); }
  void TearDown() override { ladder::host::set_lane_order(0); }
};

}  // namespace ladder::test
