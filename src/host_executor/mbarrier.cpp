#include "host_executor/mbarrier.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host_executor/asynchronous.hpp"
#include "host_executor/cluster_order.hpp"
#include "host_executor/counting.hpp"
#include "host_executor/executor.hpp"
#include "host_executor/races.hpp"
#include "host_executor/recording.hpp"
#include "host_executor/source.hpp"
#include "host_executor/touches.hpp"

namespace ladder::host {
namespace {

constexpr std::uint64_t kBytesAtInit = 0x6d62617272696572;  // in shared memory

struct Barrier {
  unsigned threads;           // that arrive in a phase
  unsigned missing;           // of them, in this phase
  std::int64_t bytes;         // still to come in this phase; below 0 if they were early
  std::uint64_t phase;        // phases that have ended
  ThreadClock now, before{};  // what has arrived in this phase, and what had in the last
  std::vector<LandedBytes> landed{}, landed_before{};  // nobody has waited for them
  std::unique_ptr<Knowledge> known{}, known_before{};  // to threads of other blocks that arrived
};
std::unordered_map<const std::uint64_t*, Barrier> barriers;
PerBlock per_block_barriers(barriers);

struct NamedBarrier {
  unsigned arrived = 0, threads = 0;
  ThreadClock now, before{};
};
constexpr int kNamedBarriers = 16;
std::vector<NamedBarrier> named(kNamedBarriers);
PerBlock per_block_named(named);

/// Checks that the running thread may use what is there, and that nothing has overwritten it.
Barrier& find(const void* pc, std::uint64_t* barrier, const char* operation) {
  const auto [part, offset] = shared_range(pc, barrier, sizeof *barrier, Access::load);
  const auto found = barriers.find(barrier);
  if (found == barriers.end()) {
    fail_thread(std::string(operation) + " at " + source_text(pc) +
                " of an mbarrier that no thread has initialised");
  }
  watch_shared(pc, part, offset, sizeof *barrier, Access::load);
  if (*barrier != kBytesAtInit) {
    fail_thread(std::string(operation) + " at " + source_text(pc) +
                " of an mbarrier that has been overwritten");
  }
  return found->second;
}

void end_phase_if_complete(const std::uint64_t* at, Barrier& barrier) {
  if (barrier.missing > 0 || barrier.bytes != 0) return;
  barrier.missing = barrier.threads;
  barrier.before = std::move(barrier.now);
  barrier.now = {};
  barrier.landed_before.insert(barrier.landed_before.end(), barrier.landed.begin(),
                               barrier.landed.end());
  barrier.landed.clear();
  barrier.known_before = std::move(barrier.known);
  ++barrier.phase;
  if (counting) count_mbarrier_phase();
  if (recording) record_of_block(Note::mbarrier_phase, at, barrier.phase);
  wake(at);
}

void expect_missing(const void* pc, const Barrier& barrier, const char* operation) {
  if (barrier.missing > 0) return;
  fail_thread(std::string(operation) + " at " + source_text(pc) + ": all " +
              std::to_string(barrier.threads) +
              " threads of the phase have arrived, and it has not ended");
}

std::string describe_mbarrier(const void* object, std::uint64_t phase) {
  const Barrier& barrier = barriers.at(static_cast<const std::uint64_t*>(object));
  std::string text = "mbarrier_wait for phase " + std::to_string(phase) + ", of parity " +
                     std::to_string(phase % 2);
  if (barrier.missing > 0) {
    text += ": " + std::to_string(barrier.missing) + " of " + std::to_string(barrier.threads) +
            " arrivals missing";
  }
  if (barrier.bytes > 0) text += ": " + std::to_string(barrier.bytes) + " bytes missing";
  if (barrier.bytes < 0) text += ": " + std::to_string(-barrier.bytes) + " bytes too many";
  return text;
}

std::string describe_named(const void* object, std::uint64_t number) {
  const auto& barrier = *static_cast<const NamedBarrier*>(object);
  return "named_barrier_sync " + std::to_string(number) + ": " + std::to_string(barrier.arrived) +
         " of " + std::to_string(barrier.threads) + " threads";
}

}  // namespace

void reset_mbarriers() {
  barriers.clear();
  named.assign(kNamedBarriers, {});
}

void mbarrier_init(std::uint64_t* barrier, unsigned threads) {
  const void* const pc = __builtin_return_address(0);
  const auto [part, offset] = shared_range(pc, barrier, sizeof *barrier, Access::store);
  constexpr unsigned kMost = (1u << 20) - 1;
  if (reinterpret_cast<std::uintptr_t>(barrier) % sizeof *barrier != 0) {
    fail_thread("mbarrier_init at " + source_text(pc) + " of a misaligned mbarrier");
  }
  if (threads == 0 || threads > kMost) {
    fail_thread("mbarrier_init at " + source_text(pc) + " for " + std::to_string(threads) +
                " threads: 1 to 1048575 may arrive");
  }
  watch_shared(pc, part, offset, sizeof *barrier, Access::store);
  const bool is_new = barriers.emplace(barrier, Barrier{threads, threads, 0, 0, {}}).second;
  if (!is_new) {
    fail_thread("mbarrier_init at " + source_text(pc) + " of an mbarrier that is in use");
  }
  *barrier = kBytesAtInit;
}

void mbarrier_arrive(std::uint64_t* at, std::int64_t bytes) {
  mbarrier_arrive(__builtin_return_address(0), at, bytes);
}

void mbarrier_arrive(const void* pc, std::uint64_t* at, std::int64_t bytes) {
  Barrier& barrier = find(pc, at, "mbarrier_arrive");
  expect_missing(pc, barrier, "mbarrier_arrive");
  if (recording) {
    trace_note(pc, Note::mbarrier_arrive, at, static_cast<std::uint64_t>(bytes));
  }
  constexpr std::int64_t kMost = (1 << 20) - 1;
  if (barrier.bytes + bytes > kMost) {
    fail_thread("mbarrier_arrive at " + source_text(pc) + " expects " + std::to_string(bytes) +
                " bytes: an mbarrier counts up to 1048575");
  }
  release_to(barrier.now);
  --barrier.missing;
  barrier.bytes += bytes;
  end_phase_if_complete(at, barrier);
}

void mbarrier_expect_tx(std::uint64_t* at, std::int64_t bytes) {
  const void* const pc = __builtin_return_address(0);
  find(pc, at, "mbarrier_expect_tx").bytes += bytes;
}

void mbarrier_invalidate(std::uint64_t* at) {
  const void* const pc = __builtin_return_address(0);
  find(pc, at, "mbarrier_invalidate");
  const auto [part, offset] = shared_range(pc, at, sizeof *at, Access::store);
  watch_shared(pc, part, offset, sizeof *at, Access::store);
  barriers.erase(at);
}

namespace {

/// The running thread has seen the last phase end.
void acquire(Barrier& barrier) {
  acquire_from(barrier.before, thread_number());
  if (barrier.known_before) learn(*barrier.known_before);
  for (const auto& [part, offset, bytes] : barrier.landed_before)
    complete_bulk(part, offset, bytes);
  barrier.landed_before.clear();
}

}  // namespace

bool mbarrier_test(std::uint64_t* at, unsigned parity) {
  Barrier& barrier = find(__builtin_return_address(0), at, "mbarrier_test");
  if (barrier.phase % 2 == parity % 2) {
    carry_out_next();
    let_others_run();
    return false;
  }
  acquire(barrier);
  return true;
}

void mbarrier_wait(std::uint64_t* at, unsigned parity, std::source_location where) {
  const void* const pc = __builtin_return_address(0);
  Barrier& barrier = find(pc, at, "mbarrier_wait");
  const std::uint64_t phase = barrier.phase;
  if (phase % 2 == parity % 2) {
    if (recording) trace_note(pc, Note::mbarrier_wait, at, phase);
    park(at, phase, &describe_mbarrier, where);
    if (barrier.phase > phase + 1) {
      fail_thread("mbarrier_wait at " + source_text(pc) + " for phase " + std::to_string(phase) +
                  ": the next one has ended too, and has the same parity as the one before");
    }
  }
  if (recording) trace_note(pc, Note::mbarrier_passed, at, barrier.phase);
  acquire(barrier);
}

void mbarrier_complete(std::uint64_t* at, const LandedBytes& landed, unsigned thread,
                       std::uint32_t time) {
  Barrier& barrier = barriers.at(at);
  note_time(barrier.now, thread, time);
  barrier.landed.push_back(landed);
  barrier.bytes -= static_cast<std::int64_t>(landed.bytes);
  end_phase_if_complete(at, barrier);
}

void remote_arrive(const void* pc, std::uint64_t* at, const Knowledge& known, std::uint32_t loaded,
                   unsigned rank, std::int64_t bytes) {
  Barrier& barrier = barriers.at(at);
  expect_missing(pc, barrier, "mbarrier_arrive_remote");
  barrier.bytes += bytes;
  hand_over(at, known);
  note_time(barrier.now, remote_reader(rank), loaded);
  --barrier.missing;
  end_phase_if_complete(at, barrier);
}

void hand_over(std::uint64_t* at, const Knowledge& known) {
  Barrier& barrier = barriers.at(at);
  if (!barrier.known) barrier.known = std::make_unique<Knowledge>();
  barrier.known->add(known);
}

bool is_mbarrier(const std::uint64_t* barrier, const void* bytes) {
  return barriers.contains(barrier) && std::memcmp(bytes, &kBytesAtInit, sizeof kBytesAtInit) == 0;
}

void expect_mbarrier(const void* pc, std::uint64_t* barrier, bool copies) {
  find(pc, barrier, copies ? "a bulk copy" : "cluster_store_async");
  if (!copies) return;
  const auto [part, offset] = shared_range(pc, barrier, sizeof *barrier, Access::load);
  expect_fenced(part, offset, sizeof *barrier, true);
}

void named_barrier(int number, unsigned threads, bool waits, std::source_location at) {
  const void* const pc = __builtin_return_address(0);
  const std::string operation = waits ? "named_barrier_sync" : "named_barrier_arrive";
  if (number < 0 || number >= kNamedBarriers) {
    fail_thread(operation + " at " + source_text(pc) + " of barrier " + std::to_string(number) +
                ": a block has 16");
  }
  NamedBarrier& barrier = named[static_cast<std::size_t>(number)];
  if (barrier.arrived > 0 && barrier.threads != threads) {
    fail_thread(operation + " " + std::to_string(number) + " at " + source_text(pc) +
                ": this thread says " + std::to_string(threads) + " threads, others " +
                std::to_string(barrier.threads));
  }
  barrier.threads = threads;
  const auto* const id = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(number));
  if (recording) trace_note(pc, waits ? Note::named_wait : Note::named_arrive, id, threads);
  release_to(barrier.now);
  if (++barrier.arrived == threads) {
    barrier.before = std::move(barrier.now);
    barrier.now = {};
    barrier.arrived = 0;
    wake(&barrier);
  } else if (waits) {
    park(&barrier, static_cast<std::uint64_t>(number), &describe_named, at);
  }
  if (waits && recording) trace_note(pc, Note::named_passed, id);
  if (waits) acquire_from(barrier.before, thread_number());
}

}  // namespace ladder::host
