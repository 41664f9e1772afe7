// A launch that a profiler or a counter watches, of a kernel that is right before it and after it.
#pragma once

#include "harness/device.hpp"
#include "harness/family.hpp"

#include <cstdint>
#include <functional>

namespace ladder {

/// Checks a kernel on the first of its family's inputs, calls `launch` with what it is launched with, and checks it
/// again. A device that cannot count throws through.
CheckResult launch_checked(const Kernel& kernel, const Problem& problem, std::uint64_t seed,
                           Device& device, const std::function<void(const Call& call)>& launch);

}  // namespace ladder
