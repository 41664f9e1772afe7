// The products that a warpgroup has under way: wgmma. They are carried out when the warpgroup waits
// for them or, under every odd order of threads, as soon as all its threads have asked for them.
//
// Registers are variables on the threads' stacks. From its issue to its wait a product's are its
// own, and what a thread does to them before it is issued takes a wgmma_fence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "host_executor/counts.hpp"
#include "host_executor/wgmma.hpp"

namespace ladder::host {

/// A new block runs.
void reset_products();
/// All threads have ended: ends the launch if products are under way.
void expect_no_products();

void wgmma_fence();
/// d are the running thread's sums, shape.n / 2 of them; a and b are descriptors.
void wgmma(const Wgmma& shape, void* d, std::uint64_t a, std::uint64_t b, bool add);
/// The same with A in registers, four of each thread's.
void wgmma(const Wgmma& shape, void* d, const std::uint32_t* a, std::uint64_t b, bool add);
void wgmma_commit_group();
/// Waits for all groups but the `pending` latest. `reads`: sums are read after it.
void wgmma_wait_group(unsigned pending, bool reads, std::source_location at);

/// Whether a block has products, and registers are under watch.
inline bool watches_registers = false;
/// The running thread accesses variables of its own. Ends the launch if they are registers of a
/// product under way.
void touch_registers(const void* pc, const void* address, std::size_t bytes, Access access);

}  // namespace ladder::host
