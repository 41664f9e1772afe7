// What every kernel of the suite does to memory: accesses are coalesced and free of bank conflicts,
// except where a rung teaches the opposite, and the counts do not depend on the order in which
// threads run.
#pragma once

#include "harness/family.hpp"

namespace ladder {

/// Expects so of the first problem that ./bench runs on the host executor, in the order of the
/// threads' numbers and in another one.
void expect_counts(const Kernel& kernel, Device& device, unsigned another_order);

}  // namespace ladder
