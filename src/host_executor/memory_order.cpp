#include "host_executor/memory_order.hpp"

#include "host_executor/executor.hpp"
#include "host_executor/global_races.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/touches.hpp"

#include <unordered_map>

namespace ladder::host {
namespace {

/// By address, what those threads of the block had done and known who released it.
std::unordered_map<const unsigned*, ThreadClock> releases;
PerBlock per_block_releases(releases);

void release_after(const unsigned* address, bool beyond) {
  if (beyond) {
    fence();
    meet_blocks(address, Access::store);
  }
  release_to(releases[address]);
}

void acquire_before(const unsigned* address, bool beyond) {
  if (const auto own = releases.find(address); own != releases.end()) {
    acquire_from(own->second, thread_number());
  }
  if (beyond) {
    meet_blocks(address, Access::load);
    fence();
  }
}

}  // namespace

void reset_releases() { releases.clear(); }

void acquire(const void* pc, const unsigned* address, bool beyond) {
  note_strong(pc, address, sizeof *address, Access::load);
  acquire_before(address, beyond);
}

void release(const void* pc, const unsigned* address, bool beyond) {
  note_strong(pc, address, sizeof *address, Access::store);
  release_after(address, beyond);
}

void acquire_release(const void* pc, const unsigned* address, bool beyond) {
  note_strong(pc, address, sizeof *address, Access::atomic);
  acquire_before(address, beyond);
  release_after(address, beyond);
}

}  // namespace ladder::host
