#include "host_executor/setmaxnreg.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "host_executor/executor.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"

namespace ladder::host {
namespace {

constexpr unsigned kWarpgroup = 128;

struct Pool {
  std::vector<unsigned> of;  // by thread; empty as long as all have what they began with
  unsigned free = 0;         // given back
};
Pool pool;
PerBlock per_block_pool(pool);

unsigned& own() {
  if (pool.of.empty()) {
    constexpr unsigned kAll = 65536, kMost = 256, kUnit = 8;
    const unsigned threads = first_reader();
    pool.of.assign(threads, std::min(kAll / threads, kMost) / kUnit * kUnit);
  }
  return pool.of[thread_number()];
}

[[noreturn]] void refuse(const void* pc, const char* operation, unsigned registers) {
  fail_thread(std::string(operation) + "<" + std::to_string(registers) + "> at " + source_text(pc) +
              " of a thread that has " + std::to_string(own()) + " registers");
}

std::string describe(const void*, std::uint64_t registers) {
  return "setmaxnreg_inc<" + std::to_string(registers) + ">: " + std::to_string(pool.free) +
         " registers are free";
}

}  // namespace

void reset_registers() { pool = {}; }

void expect_same_registers() {
  for (std::size_t i = 1; i < pool.of.size(); ++i) {
    if (i % kWarpgroup == 0 || pool.of[i] == pool.of[i - 1]) continue;
    fail_thread("threads of a warpgroup end with different numbers of registers: thread " +
                thread_text(static_cast<unsigned>(i)) + " with " + std::to_string(pool.of[i]) +
                ", the one before it with " + std::to_string(pool.of[i - 1]) +
                ", as not all have executed setmaxnreg");
  }
}

void setmaxnreg_dec(unsigned registers) {
  if (registers > own()) refuse(__builtin_return_address(0), "setmaxnreg_dec", registers);
  pool.free += own() - registers;
  own() = registers;
  wake(&pool);
}

void setmaxnreg_inc(unsigned registers, std::source_location at) {
  if (registers < own()) refuse(__builtin_return_address(0), "setmaxnreg_inc", registers);
  const unsigned more = registers - own();
  while (pool.free < more) park(&pool, registers, &describe, at);
  pool.free -= more;
  own() = registers;
}

}  // namespace ladder::host
