// With _FORTIFY_SOURCE, which some compilers turn on by themselves, longjmp aborts the program when
// it is used to change stacks.
#undef _FORTIFY_SOURCE

#include "host_executor/fiber.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>

#include "support/out_of_memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace ladder::host {
namespace {

// Room for the 512 KiB of local variables that a thread of a GPU can have. It is address space only:
// the system provides pages when they are touched, and small ones, as no huge page fits in.
constexpr std::size_t kStackSize = 1 << 20;

// What lies below a stack can't be accessed: an overflow ends in a fault, not in another thread's
// variables, even that of a function with large arrays, which touches the far end first.
constexpr std::size_t kGuardSize = 1 << 20;

// Stacks begin at other pages and lines of the caches than those before them. Did all begin at
// multiples of 2 MiB, a few ways of the TLB and the caches would be all that they share, and a switch
// would take twice as long.
std::size_t next_offset() {
  static std::size_t fibers = 0;
  constexpr std::size_t kPageAndLine = 4096 + 64;
  return fibers++ % 64 * kPageAndLine;
}

// The fiber that runs, and the one that ran before it.
Fiber* running = nullptr;
Fiber* previous = nullptr;

[[noreturn]] void throw_no_stack() {
  throw OutOfMemory(double{kGuardSize + kStackSize}, static_cast<double>(free_host_memory()),
                    "the stack of a thread of the block");
}

}  // namespace

Fiber::Fiber() : started_(true) {}

Fiber::Fiber(void (*entry)()) : entry_(entry), stack_size_(kStackSize - next_offset()) {
  void* memory = mmap(nullptr, kGuardSize + kStackSize, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_no_stack();
  stack_ = static_cast<char*>(memory) + kGuardSize;
  if (mprotect(const_cast<void*>(stack_), kStackSize, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, kGuardSize + kStackSize);
    throw_no_stack();
  }
}

Fiber::~Fiber() {
  if (!entry_) return;
  munmap(static_cast<char*>(const_cast<void*>(stack_)) - kGuardSize, kGuardSize + kStackSize);
}

bool Fiber::guards(const void* address) const {
  const auto end = reinterpret_cast<std::uintptr_t>(stack_);
  return end - reinterpret_cast<std::uintptr_t>(address) - 1 < kGuardSize;
}

Fiber& Fiber::caller() {
  static Fiber fiber;
  return fiber;
}

Fiber& Fiber::current() { return running ? *running : caller(); }

void Fiber::resume() {
  Fiber& from = current();
  previous = &from;
  running = this;
  before_switch(from);
  if (_setjmp(from.context_) == 0) {
    if (!started_) start();
    _longjmp(context_, 1);
  }
  after_switch();
}

void Fiber::restart() {
  started_ = false;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, stack_size_);  // the frames that were left behind
  fake_stack_ = nullptr;
#endif
}

// Does not return: AddressSanitizer would wait in vain for the end of its frame.
[[gnu::no_sanitize("address")]] void Fiber::start() {
  started_ = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = const_cast<void*>(stack_);
  context.uc_stack.ss_size = stack_size_;
  context.uc_link = nullptr;
  makecontext(&context, &Fiber::enter, 0);
  setcontext(&context);
  __builtin_unreachable();
}

void Fiber::enter() {
  after_switch();
  running->entry_();
}

// AddressSanitizer must know which stack is in use.

void Fiber::before_switch([[maybe_unused]] Fiber& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack_, stack_, stack_size_);
#endif
}

void Fiber::after_switch() {
#if defined(__SANITIZE_ADDRESS__)
  // The bounds of the caller's stack, which nobody told us, are learnt here.
  __sanitizer_finish_switch_fiber(running->fake_stack_, &previous->stack_, &previous->stack_size_);
#endif
}

}  // namespace ladder::host
