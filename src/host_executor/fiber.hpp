// Fibers: stacks of their own, on which a thread of a block can stop half way and go on later.
//
// ucontext starts a fiber; _setjmp and _longjmp switch between fibers that run already, because
// swapcontext makes a system call per switch and a kernel switches millions of times.
#pragma once

#include <csetjmp>
#include <cstddef>

namespace ladder::host {

class Fiber {
 public:
  /// A fiber that runs entry(), which must not return, when it is first resumed.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The fiber that is running.
  static Fiber& current();

  /// The stack that host::run was called on.
  static Fiber& caller();

  /// Stops the current fiber, until something resumes it, and goes on with this one.
  void resume();

  /// Whether an address is in the guard below this fiber's stack, where an overflow ends.
  bool guards(const void* address) const;

  /// Forgets what this fiber was doing: when resumed next, it starts at its entry again.
  void restart();

 private:
  Fiber();  // caller()

  [[noreturn]] void start();
  void before_switch(Fiber& from);
  static void after_switch();
  static void enter();

  void (*entry_)() = nullptr;
  bool started_ = false;
  std::jmp_buf context_;
  const void* stack_ = nullptr;  // the lowest usable address
  std::size_t stack_size_ = 0;   // bytes
  void* fake_stack_ = nullptr;   // AddressSanitizer's; see its common_interface_defs.h
};

}  // namespace ladder::host
