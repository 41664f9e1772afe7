// What the kernels of the suite do to memory: accesses are coalesced and free of bank conflicts,
// except where a rung teaches the opposite, and the counts do not depend on the order in which
// threads run. Of a version that the suite does not list the counts are printed instead.
#pragma once

#include "harness/family.hpp"

namespace ladder {

/// Expects so on the first problem that ./bench runs on the host executor, in the order of the
/// threads' numbers and in another one.
void expect_counts(const Kernel& kernel, Device& device, unsigned another_order);

}  // namespace ladder
