#include "host_executor/cluster.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "host_executor/cluster_order.hpp"
#include "host_executor/counting.hpp"
#include "host_executor/global_races.hpp"
#include "host_executor/launch_bounds.hpp"
#include "host_executor/mbarrier.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/races.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"

namespace ladder::host {
namespace {

/// A thread at the cluster's barrier.
struct Member {
  unsigned waits = 0;        // phases that it has waited for
  bool has_arrived = false;  // in the next
};
std::vector<Member> members;
unsigned syncing = 0;  // threads of the block that are in cluster_sync
PerBlock per_block_members(members);
PerBlock per_block_syncing(syncing);

unsigned blocks = 1;
unsigned phases = 0;   // that have ended
unsigned arrived = 0;  // threads, in this one
PerLaunch per_launch_blocks(blocks);
PerLaunch per_launch_phases(phases);
PerLaunch per_launch_arrived(arrived);

Member& own_member() { return members[thread_number()]; }

std::string describe(const void*, std::uint64_t is_sync) {
  return std::string(is_sync ? "cluster_sync" : "cluster_wait") + ": " + std::to_string(arrived) +
         " of the cluster's " + std::to_string(threads_of_cluster()) + " threads have arrived";
}

void end_phase_if_complete() {
  if (arrived == 0 || arrived < threads_of_cluster()) return;
  share_in_cluster(blocks);
  end_phase_in_order(blocks);
  arrived = 0;
  ++phases;
  for (unsigned rank = 0; rank < blocks; ++rank) {
    const InBlock each(rank);
    if (syncing > 0 && syncing == threads_of_block()) meet();
    syncing = 0;
    wake(&phases);
  }
}

void arrive(const void* pc, const char* operation, bool releases) {
  Member& member = own_member();
  if (member.has_arrived) {
    fail_thread(std::string(operation) + " at " + source_text(pc) +
                ": this thread has arrived at the cluster's barrier, and not waited");
  }
  member.has_arrived = true;
  ++arrived;
  arrive_in_order(releases);
}

void wait(bool is_sync, std::source_location at) {
  Member& member = own_member();
  if (member.waits == phases) park(&phases, is_sync, &describe, at);
  member.has_arrived = false;
  ++member.waits;
  wait_in_order();
}

bool is_in_cluster(const void* pc, const char* operation) {
  if (!kKnowsClusters) {
    fail_thread(std::string(operation) + " at " + source_text(pc) +
                ": only GCC on x86-64 tells the host executor of clusters");
  }
  return in_cluster;  // or the only block of one
}

std::string of_rank(unsigned rank) { return "the block of rank " + std::to_string(rank); }

}  // namespace

void begin_cluster_barrier(unsigned blocks_of_cluster) {
  blocks = blocks_of_cluster;
  phases = arrived = 0;
}

void begin_block_in_cluster() {
  members.assign(threads_of_block(), {});
  syncing = 0;
  begin_block_order(threads_of_block());
}

void leave_cluster() {
  const Member& member = own_member();
  if (member.has_arrived && member.waits == phases) --arrived;
  end_in_order();
  end_phase_if_complete();
}

void end_block_in_cluster() {
  for (unsigned rank = 0; rank < blocks; ++rank) {
    if (knows_loads(rank)) continue;
    fail_thread("the block ends while " + of_rank(rank) +
                " may still read its shared memory: no cluster_sync comes after cluster_load");
  }
}

void cluster_arrive(bool releases) {
  const void* const pc = __builtin_return_address(0);
  const char* const operation = releases ? "cluster_arrive" : "cluster_arrive_relaxed";
  if (!is_in_cluster(pc, operation)) return;
  arrive(pc, operation, releases);
  end_phase_if_complete();
}

void cluster_wait(std::source_location at) {
  const void* const pc = __builtin_return_address(0);
  if (!is_in_cluster(pc, "cluster_wait")) return;
  if (!own_member().has_arrived) {
    fail_thread("cluster_wait at " + source_text(pc) +
                ": this thread has not arrived at the cluster's barrier");
  }
  wait(false, at);
}

void cluster_sync(std::source_location at) {
  const void* const pc = __builtin_return_address(0);
  if (!is_in_cluster(pc, "cluster_sync")) {
    barrier(false, at);
    return;
  }
  arrive(pc, "cluster_sync", true);
  ++syncing;
  end_phase_if_complete();
  wait(true, at);
}

void fence_mbarrier_init() {
  fence_mbarrier_inits();
  if (in_cluster) fence_inits();
}

unsigned cluster_address(const void* pointer, unsigned rank) {
  const void* const pc = __builtin_return_address(0);
  is_in_cluster(pc, "cluster_address");
  if (rank >= blocks) {
    fail_thread("cluster_address at " + source_text(pc) + " of rank " + std::to_string(rank) +
                ": the cluster has " + std::to_string(blocks) +
                (blocks == 1 ? " block" : " blocks"));
  }
  return (rank + 1) << kRankShift | shared_address(pointer);
}

ClusterPlace place_at(const void* pc, const char* operation, unsigned address, std::size_t bytes,
                      Access access) {
  return place_at(pc, operation, address, bytes, access, bytes);
}

ClusterPlace place_at(const void* pc, const char* operation, unsigned address, std::size_t bytes,
                      Access access, std::size_t alignment) {
  const unsigned rank = address >> kRankShift;
  const unsigned own = address & ((1u << kRankShift) - 1);
  if (rank > blocks || own % alignment != 0) {
    fail_thread(std::string(operation) + " at " + source_text(pc) +
                (rank > blocks ? ": no address in the cluster" : ": misaligned"));
  }
  return {rank == 0 ? BlockVariable::selected() : rank - 1,
          shared_range(pc, shared_pointer(own), bytes, access)};
}

void expect_block(const void* pc, const char* operation, unsigned rank, const RemoteThread& by) {
  const auto refuse = [&](const char* why) {
    fail_thread(std::string(operation) + " at " + source_text(pc) + ": DSMEM of " + of_rank(rank) +
                ", which " + why);
  };
  if (!by.has_met()) refuse("need not have started: no cluster_sync comes before");
  const InBlock there(rank);
  if (threads_of_block() == 0) refuse("has ended");
}

std::uint64_t* expect_remote_mbarrier(const void* pc, const char* operation,
                                      const ClusterPlace& barrier, const RemoteThread& by,
                                      bool copies) {
  const auto& [part, offset] = barrier.at;
  const InBlock there(barrier.rank);
  auto* const at = static_cast<std::uint64_t*>(pointer_in(barrier.rank, part, offset));
  if (!is_mbarrier(at, memory_of(barrier.rank, part, offset))) {
    fail_thread(std::string(operation) + " at " + source_text(pc) + ": " + of_rank(barrier.rank) +
                " has no mbarrier there");
  }
  expect_known(pc, part, offset, sizeof *at, by);
  if (copies) expect_fenced(part, offset, sizeof *at, true);
  return at;
}

void trace_cluster(const void* pc, const ClusterPlace& place, Access access) {
  const unsigned own = BlockVariable::selected();
  trace_cluster_access(pc, pointer_in(own, place.at.part, place.at.offset), 16, access,
                       place.rank == own ? 0 : place.rank + 1);
}

void cluster_load(void* to, unsigned address) {
  const void* const pc = __builtin_return_address(0);
  constexpr std::size_t kBytes = 16;
  const ClusterPlace place = place_at(pc, "cluster_load", address, kBytes, Access::load);
  const auto& [rank, at] = place;
  if (counting) trace_cluster(pc, place, Access::cluster_load);
  const unsigned own = BlockVariable::selected();
  if (rank == own) {
    watch_shared(pc, at.part, at.offset, kBytes, Access::load);
  } else {
    const RemoteThread by(own, rank);
    expect_block(pc, "cluster_load", rank, by);
    std::uint32_t time;
    {
      const InBlock there(rank);
      watch_remote(pc, at.part, at.offset, kBytes, Access::load, by);
      time = own_time(remote_reader(own));
      tick(remote_reader(own));
    }
    note_remote_load(rank, time);
  }
  std::memcpy(to, memory_of(rank, at.part, at.offset), kBytes);
}

namespace {

/// The running thread writes there. Returns where it is.
void* write_at(const void* pc, const char* operation, unsigned address, std::size_t bytes,
               Access access) {
  const auto [rank, at] = place_at(pc, operation, address, bytes, access);
  const unsigned own = BlockVariable::selected();
  if (rank == own) {
    watch_shared(pc, at.part, at.offset, bytes, access);
  } else {
    const RemoteThread by(own, rank);
    expect_block(pc, operation, rank, by);
    std::uint32_t time;
    {
      const InBlock there(rank);
      watch_remote(pc, at.part, at.offset, bytes, access, by);
      time = own_time(remote_writer(own));
      tick(remote_writer(own));
    }
    note_remote_store(rank, time);
  }
  return memory_of(rank, at.part, at.offset);
}

template <class T>
T atomic_add(const void* pc, unsigned address, T value) {
  void* const at = write_at(pc, "cluster_atomic_add", address, sizeof(T), Access::atomic);
  T old;
  std::memcpy(&old, at, sizeof(T));
  const T sum = old + value;
  std::memcpy(at, &sum, sizeof(T));
  return old;
}

}  // namespace

void cluster_store(unsigned address, const void* from) {
  constexpr std::size_t kBytes = 16;
  std::memcpy(
      write_at(__builtin_return_address(0), "cluster_store", address, kBytes, Access::store), from,
      kBytes);
}

float cluster_atomic_add(unsigned address, float value) {
  return atomic_add(__builtin_return_address(0), address, value);
}
int cluster_atomic_add(unsigned address, int value) {
  return static_cast<int>(
      atomic_add(__builtin_return_address(0), address, static_cast<unsigned>(value)));
}
unsigned cluster_atomic_add(unsigned address, unsigned value) {
  return atomic_add(__builtin_return_address(0), address, value);
}

void mbarrier_arrive_remote(unsigned address, std::int64_t bytes) {
  const void* const pc = __builtin_return_address(0);
  constexpr char kName[] = "mbarrier_arrive_remote";
  const ClusterPlace barrier = place_at(pc, kName, address, sizeof(std::uint64_t), Access::load);
  const auto& [rank, at] = barrier;
  const unsigned own = BlockVariable::selected();
  if (rank == own) {
    auto* const here = static_cast<std::uint64_t*>(pointer_in(own, at.part, at.offset));
    return mbarrier_arrive(pc, here, bytes);
  }
  const RemoteThread by(own, rank);
  expect_block(pc, kName, rank, by);
  std::uint64_t* const there = expect_remote_mbarrier(pc, kName, barrier, by, false);
  const Knowledge known = own_knowledge(own);
  const std::uint32_t loaded = last_remote_load(rank);
  const InBlock in_block(rank);
  remote_arrive(pc, there, known, loaded, own, bytes);
}

}  // namespace ladder::host
