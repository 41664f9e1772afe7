#include "host_executor/steps.hpp"

#include <string>

#include "host_executor/executor.hpp"
#include "host_executor/source.hpp"

namespace ladder::host {
namespace {

std::int64_t limit = kMostSteps;

}  // namespace

std::int64_t steps_left = kMostSteps;

void set_step_limit(std::int64_t steps) { limit = steps; }

void allow_steps() { steps_left = limit; }

void end_steps(const void* pc) {
  allow_steps();
  if (!in_kernel()) return;
  fail_thread("endless loop: the block has taken " + std::to_string(limit) +
              " steps, the last at " + source_text(pc) +
              " (a thread that waits for another must do so at a barrier, or around a volatile or "
              "atomic access)");
}

}  // namespace ladder::host
