// A kernel that never ends, ended: the steps that the threads of a block take are counted, not its
// time, so that a launch ends where it ended before. A step is the entry of a basic block; every
// turn of a loop is one at least, unless the compiler finds nothing to do in it. (In builds for
// AddressSanitizer nothing is counted.)
#pragma once

#include <cstdint>

namespace ladder::host {

/// How many steps a block may take, all its threads together. They take half a minute at least, far
/// longer than any block of a kernel that ends.
inline constexpr std::int64_t kMostSteps = 10'000'000'000;

void set_step_limit(std::int64_t steps);

/// A new block runs.
void allow_steps();

/// What the block may still do; none of the executor's own work counts.
extern std::int64_t steps_left;

/// Ends the launch, if a thread is running, with an error of its own.
void end_steps(const void* pc);

/// The running thread enters the basic block at pc.
[[gnu::always_inline]] inline void take_step(const void* pc) {
  if (--steps_left < 0) end_steps(pc);
}

}  // namespace ladder::host
