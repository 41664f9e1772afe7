#include "process/memory.hpp"

#include "support/out_of_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

namespace ladder {
namespace {

bool is_worker = false;
std::atomic_flag lacked;
OutOfMemory first_lack{0, 0};

/// Where no memory may be had: in static initializers, and while another exception is handled.
[[noreturn]] void end_with_a_sentence() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc& lack) {
    if (is_worker) _exit(kNoMemoryExit);
    char text[300];
    const int size = std::snprintf(text, sizeof text, "bench: %s.\n", lack.what());
    [[maybe_unused]] const auto written =
        write(STDERR_FILENO, text, static_cast<std::size_t>(size));
    _exit(1);
  } catch (...) {
  }
  std::abort();
}

void set_terminate(int, char**, char**) { std::set_terminate(&end_with_a_sentence); }

}  // namespace

/// Runs before the static initializers of the shared libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const first)(int, char**,
                                                                  char**) = &set_terminate;

void expect_no_lack() {
  if (lacked.test()) throw first_lack;
}

void forgive_lack() { lacked.clear(); }

void leave_last_words_to_parent() { is_worker = true; }

}  // namespace ladder

#if !defined(__SANITIZE_ADDRESS__)  // which has its own

void* operator new(std::size_t bytes) {
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  const ladder::OutOfMemory lack(static_cast<double>(bytes),
                                 static_cast<double>(ladder::free_host_memory()));
  if (!ladder::lacked.test_and_set()) ladder::first_lack = lack;
  throw lack;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
