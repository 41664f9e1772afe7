// What is thrown when memory lacks: it says how much was needed, for what, and how much is free.
#pragma once

#include <cstddef>
#include <new>

namespace ladder {

/// Made without asking for memory.
class OutOfMemory : public std::bad_alloc {
 public:
  /// what: "the inputs and the answer"; may be empty. All are bytes.
  OutOfMemory(double needed, double free, const char* what = "") noexcept;
  const char* what() const noexcept override { return text_; }

 private:
  char text_[200];
};

/// How many bytes this process can still have: what the system has left, or less where the process
/// (ulimit -v) or its control group (a container) may have no more.
std::size_t free_host_memory() noexcept;

}  // namespace ladder
