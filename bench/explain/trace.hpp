// What warps of a kernel do step by step, as the host executor ran them: what scripts/stepper.py shows.
#pragma once

#include "cli/options.hpp"

#include "harness/device.hpp"

namespace ladder {

/// What --trace does: runs each kernel that the options select once, checked, and writes the steps of
/// the chosen warps as JSON. Returns whether all of them passed their checks; throws UsageError on a
/// GPU.
bool trace(const Options& options, Device& device);

}  // namespace ladder
