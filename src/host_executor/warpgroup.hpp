// The products that a warpgroup has under way: wgmma. They are carried out when the warpgroup waits
// for them or, under every odd order of threads, as soon as all its threads have asked for them.
#pragma once

#include <cstdint>
#include <source_location>

#include "host_executor/wgmma.hpp"

namespace ladder::host {

/// A new block runs.
void reset_products();
/// All threads have ended: ends the launch if products are under way.
void expect_no_products();

void wgmma_fence();
/// d are the running thread's sums, shape.n / 2 of them; a and b are descriptors.
void wgmma(const Wgmma& shape, float* d, std::uint64_t a, std::uint64_t b, bool add);
void wgmma_commit_group();
/// Waits for all groups but the `pending` latest. `reads`: sums are read after it.
void wgmma_wait_group(unsigned pending, bool reads, std::source_location at);

}  // namespace ladder::host
