#include "host_executor/executor.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "host_executor/asynchronous.hpp"
#include "host_executor/cluster.hpp"
#include "host_executor/counting.hpp"
#include "host_executor/fiber.hpp"
#include "host_executor/global_races.hpp"
#include "host_executor/lanes.hpp"
#include "host_executor/mbarrier.hpp"
#include "host_executor/memory.hpp"
#include "host_executor/memory_order.hpp"
#include "host_executor/per_block.hpp"
#include "host_executor/ptx.hpp"
#include "host_executor/recording.hpp"
#include "host_executor/setmaxnreg.hpp"
#include "host_executor/source.hpp"
#include "host_executor/steps.hpp"
#include "host_executor/touches.hpp"
#include "support/out_of_memory.hpp"

namespace ladder::host {

// Kernels see these variables as constants (cuda_on_cpu.hpp says why), under the names CUDA gives
// them; the executor, which changes them, gives them other names.
uint3 thread_index asm("threadIdx");
uint3 block_index asm("blockIdx");
uint3 block_dim asm("blockDim");
uint3 grid_dim asm("gridDim");

namespace {

constexpr unsigned kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffff;
constexpr unsigned kMaxGridYZ = 0xffff;

// Of an SM.
constexpr unsigned kMostWarpsOfSm = 64, kMostBlocksOfSm = 32;
constexpr std::size_t kSharedOfSm = 228 << 10,
                      kSharedOfSystem = 1 << 10;  // the latter of each block

// A thread polls that comes back to a volatile or atomic access so often, with fewer others between,
// and nothing changes. If nobody changes anything a loop is endless that goes on for so long.
constexpr unsigned kPolls = 1024, kMostPolled = 32;
constexpr std::uint64_t kMostIdlePolls = 1 << 20;

// Where launches overlap, so many times its threads meet at __syncthreads until a block gives way to
// others, in the mean of a random order.
constexpr std::size_t kGivesWay = 4;

/// A thread of a block.
struct Lane {
  enum class State { ready, at_barrier, in_collective, parked, polling, ended };

  uint3 index;      // threadIdx
  unsigned number;  // in the block
  unsigned rank;    // of the block, in its cluster

  State state;
  Fiber* fiber;             // null until the thread starts
  std::source_location at;  // where it waits

  // While in_collective:
  const Collective* collective;
  unsigned mask;
  void* record;

  // While parked:
  const void* object;
  std::uint64_t detail;
  Describe describe;

  // A volatile or atomic access that the thread has made, how often it has come back to it without
  // finding a change, and how many others it has made since.
  struct {
    const void *address, *pc;
    std::uint64_t changes;
    unsigned times, others;
  } poll;

  unsigned warp() const { return number / kWarpSize; }
  unsigned bit() const { return 1u << number % kWarpSize; }
};

struct Warp {
  Lane* lanes;             // the first of them
  unsigned ended;          // bits of lanes; those beyond the block's last thread count as ended
  unsigned in_collective;  // bits of lanes
};

std::size_t random_below(std::size_t count, std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
  return (state >> 32) * count >> 32;
}

/// The threads that can run, in the order in which they became ready.
class ReadyQueue {
 public:
  void reserve(std::size_t threads) { ring_.resize(threads); }
  void clear() { first_ = count_ = 0; }
  bool empty() const { return count_ == 0; }
  void seed(unsigned order) { random_ = order; }

  void push(Lane& lane) { slot(count_++) = &lane; }

  /// Takes the first, or under a seeded order any of them; null if there is none.
  Lane* pop() {
    if (count_ == 0) return nullptr;
    if (random_ != 0) std::swap(slot(0), slot(pick()));
    Lane* lane = slot(0);
    first_ = first_ + 1 == ring_.size() ? 0 : first_ + 1;
    --count_;
    return lane;
  }

 private:
  Lane*& slot(std::size_t i) {
    i += first_;
    return ring_[i < ring_.size() ? i : i - ring_.size()];
  }

  std::size_t pick() { return random_below(count_, random_); }

  std::vector<Lane*> ring_;
  std::size_t first_ = 0, count_ = 0;
  std::uint64_t random_ = 0;
};

/// Fibers that are on no thread's behalf, kept for the next.
class FiberPool {
 public:
  Fiber& take(void (*entry)()) {
    if (idle_.empty()) {
      all_.push_back(std::make_unique<Fiber>(entry));
      return *all_.back();
    }
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    return *fiber;
  }

  void put(Fiber& fiber) { idle_.push_back(&fiber); }

  /// After an error: takes all fibers back from threads that will never go on.
  void reclaim() {
    idle_.clear();
    for (auto& fiber : all_) {
      fiber->restart();
      idle_.push_back(fiber.get());
    }
  }

 private:
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
};

// The executor's state. One thread of one kernel runs at a time.
unsigned blocks = 1;             // of a cluster
std::vector<uint3> index_of;     // of the blocks that have begun, by slot
unsigned alive_in_cluster = 0;   // or in the block, where there is no cluster
std::uint64_t random_block = 0;  // 0: blocks take turns in the order of their ranks
unsigned lane_order = 0;
BlockChoice choose_blocks;            // null: all
const void* launch_stream = nullptr;  // that launches go into
int sm_count_of_kernels = 2;
FiberPool fibers;
ReadyQueue ready;
Body body;
std::vector<Lane> lanes;
std::vector<Warp> warps;
Lane* current = nullptr;      // the thread that is running
unsigned alive = 0;           // threads that have not ended
unsigned polling = 0;         // threads that go on when what they read may have changed
std::uint64_t polled_at = 0;  // how much had changed when the first of them came to be one
std::string error;            // empty until the launch fails

// The barrier at which threads wait.
struct {
  unsigned arrived = 0;
  unsigned yes = 0;
  const Lane* first = nullptr;
  Votes result{};  // of the last barrier; all have read it before the next can complete
} barrier_state;

PerLaunch per_launch_blocks(blocks);
PerLaunch per_launch_alive(alive_in_cluster);
PerLaunch per_launch_body(body);
PerLaunch per_launch_block_dim(block_dim);
PerLaunch per_launch_grid_dim(grid_dim);
PerBlock per_block_ready(ready);
PerBlock per_block_lanes(lanes);
PerBlock per_block_warps(warps);
PerBlock per_block_alive(alive);
PerBlock per_block_polling(polling);
PerBlock per_block_polled_at(polled_at);
PerBlock per_block_barrier(barrier_state);

// --- Errors ------------------------------------------------------------------------------------

std::string to_string(uint3 v) {
  std::string text = "(";
  text += std::to_string(v.x) + ',';
  text += std::to_string(v.y) + ',';
  text += std::to_string(v.z) + ')';
  return text;
}

std::string to_string(std::source_location at) {
  const std::string file = at.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(at.line()) + ":" +
         std::to_string(at.column());
}

std::string hex(unsigned mask) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[mask >> shift & 15];
  return text;
}

/// What a thread waits for, and where: "__shfl_sync with mask 0x0000ffff (v02.cu:14:9)".
std::string waits_at(const Lane& lane) {
  const auto what = [&]() -> std::string {
    if (lane.state == Lane::State::in_collective) {
      return lane.collective->name + (" with mask " + hex(lane.mask));
    }
    return lane.state == Lane::State::parked ? lane.describe(lane.object, lane.detail)
                                             : "__syncthreads";
  };
  if (lane.state == Lane::State::polling) return "a loop around " + source_text(lane.poll.pc);
  return what() + " (" + to_string(lane.at) + ")";
}

/// The error of a lane's; or of another one's, if what that did is the error.
std::string error_text(const Lane& lane, const std::string& what) {
  const auto race = race_in_warp();
  const Lane& of = race ? lanes[race->thread] : lane;
  return "block " + to_string(index_of[BlockVariable::slot(of.rank)]) + " thread " +
         to_string(of.index) + ": " + (race ? race->text : what);
}

/// Ends the launch. The threads stop where they are: nothing is thrown through a kernel, which may
/// have no unwind information where this is called (the compiler believes that hooks don't throw).
/// So no caller may leave anything on its stack that must be destroyed, nor be in a catch handler.
[[noreturn]] void fail(const Lane& lane, const std::string& what) {
  error = error_text(lane, what);
  Fiber::caller().resume();
  __builtin_unreachable();
}

std::string disagreement(const char* what, const Lane& lane, const Lane& other) {
  return what + (": this one is at " + waits_at(lane)) + ", thread " + to_string(other.index) +
         " at " + waits_at(other);
}

/// A lane that waits for one that waits for it, but with another mask; null if there is none.
const Lane* find_other_mask(const Lane& lane) {
  const Warp& warp = warps[lane.warp()];
  const Lane* found = nullptr;
  for_each_lane(lane.mask & warp.in_collective, [&](unsigned i) {
    const Lane& other = warp.lanes[i];
    if ((other.mask & lane.bit()) && other.mask != lane.mask && !found) found = &other;
  });
  return found;
}

/// Of the selected block.
std::string describe_waiting() {
  std::vector<std::pair<std::string, unsigned>> places;
  for (const Lane& lane : lanes) {
    if (lane.state == Lane::State::ended) continue;
    std::string place = waits_at(lane);
    auto known = places.begin();
    while (known != places.end() && known->first != place) ++known;
    if (known == places.end()) known = places.insert(known, {std::move(place), 0});
    ++known->second;
  }
  std::string text;
  for (const auto& [place, count] : places) {
    text += std::to_string(count) + (count == 1 ? " thread waits at " : " threads wait at ") +
            place + ", ";
  }
  return text + std::to_string(lanes.size() - alive) + " have ended";
}

/// The error of a block or cluster of which no thread can ever run.
std::string deadlock_text() {
  const Lane* first = nullptr;
  std::string text = "deadlock: ";
  for (unsigned rank = 0; rank < blocks; ++rank) {
    BlockVariable::select(rank);
    for (const Lane& lane : lanes) {
      if (lane.state == Lane::State::ended) continue;
      if (race_in_warp()) return error_text(lane, {});
      if (!first) first = &lane;
      if (lane.state != Lane::State::in_collective) continue;
      if (const Lane* other = find_other_mask(lane)) {
        return error_text(lane, disagreement("lanes disagree on the mask", lane, *other));
      }
    }
    if (blocks > 1) text += (rank > 0 ? "; rank " : "rank ") + std::to_string(rank) + ": ";
    text += describe_waiting();
  }
  return error_text(*first, text);
}

/// Whether the selected block goes on though none of its threads can run.
bool waits_for_others() { return polling > 0 || (launches_overlap && has_copies_pending()); }

/// No thread of the block or cluster can run: back to the launches if it can go on later, else the end
/// of its launch.
void leave() {
  bool goes_on = false;
  for (unsigned rank = 0; rank < blocks && !goes_on; ++rank) {
    BlockVariable::select(rank);
    goes_on = waits_for_others();
  }
  if (!goes_on) error = deadlock_text();
  Fiber::caller().resume();
}

// --- Turns -------------------------------------------------------------------------------------

void make_ready(Lane& lane) {
  lane.state = Lane::State::ready;
  ready.push(lane);
}

void set_current(Lane& lane) {
  if (blocks > 1) {
    move_in(lane.rank);
    block_index = index_of[BlockVariable::slot(lane.rank)];
  }
  current = &lane;
  running_thread = {true, lane.number};
  thread_index = lane.index;
}

/// The threads of the block have met, or ended: a race within a warp is now the error.
void end_interval() {
  if (race_in_warp()) fail(*current, {});
  order_block();
}

void release_barrier() {
  meet();
  if (counting) count_barrier();
  if (recording) record_barrier(barrier_state.first->at);
  barrier_state.result = {barrier_state.yes, barrier_state.arrived};
  barrier_state.arrived = barrier_state.yes = 0;
  for (Lane& lane : lanes) {
    if (lane.state == Lane::State::at_barrier) make_ready(lane);
  }
}

/// Carries out the collective that the lanes of mask wait for, if all that have not ended are
/// there.
void try_complete(Warp& warp, unsigned mask) {
  const unsigned taking_part = mask & ~warp.ended;
  if ((warp.in_collective & taking_part) != taking_part) return;

  // One that is there with another mask waits for other lanes first: that is no error yet.
  bool same_mask = true;
  for_each_lane(taking_part, [&](unsigned i) { same_mask &= warp.lanes[i].mask == mask; });
  if (!same_mask) return;

  const Lane& first = warp.lanes[first_lane(taking_part)];
  void* records[kWarpSize] = {};
  for_each_lane(taking_part, [&](unsigned i) {
    const Lane& lane = warp.lanes[i];
    if (lane.collective != first.collective) {
      fail(lane, disagreement("lanes disagree on the operation", lane, first));
    }
    records[i] = lane.record;
  });
  first.collective->complete(records, taking_part);
  if (counting) trace_meeting(first.warp(), taking_part, warp.ended);
  if (recording) record_collective(first.warp(), taking_part, first.collective->name, first.at);
  warp.in_collective &= ~taking_part;
  for_each_lane(taking_part, [&](unsigned i) { make_ready(warp.lanes[i]); });
}

/// The next thread of any block of the cluster, which it selects.
Lane* next_in_cluster() {
  const unsigned first = random_block == 0
                             ? BlockVariable::selected()
                             : static_cast<unsigned>(random_below(blocks, random_block));
  for (bool goes_on = true; goes_on;) {
    for (unsigned i = 0; i < blocks; ++i) {
      BlockVariable::select((first + i) % blocks);
      if (Lane* const next = ready.pop()) return next;
    }
    goes_on = false;
    for (unsigned i = 0; i < blocks && !launches_overlap && !goes_on; ++i) {
      BlockVariable::select((first + i) % blocks);
      goes_on = alive > 0 && carry_out_next();
    }
  }
  return nullptr;
}

/// The next thread that can run. If there is none, asynchronous work goes on until there is; but where
/// launches overlap, others have their turns before.
Lane* next_ready() {
  Lane* next = ready.pop();
  if (!next && blocks > 1) return next_in_cluster();
  while (!next && !launches_overlap && alive > 0 && carry_out_next()) next = ready.pop();
  return next;
}

/// The running thread has ended; others may have waited for nobody else.
void end_current() {
  Lane& lane = *current;
  Warp& warp = warps[lane.warp()];
  lane.state = Lane::State::ended;
  running_thread.any = false;
  warp.ended |= lane.bit();
  --alive;
  --alive_in_cluster;
  if (alive == 0) {
    end_interval();
    end_asynchronous_work();
    expect_same_registers();
    if (in_cluster) end_block_in_cluster();
  }
  if (in_cluster) leave_cluster();
  if (barrier_state.arrived > 0 && barrier_state.arrived == alive) release_barrier();
  for_each_lane(warp.in_collective, [&](unsigned i) {
    if (warp.in_collective >> i & 1) try_complete(warp, warp.lanes[i].mask);
  });
}

/// Runs the body for the current thread. An exception is the kernel's own, which on a GPU has none, or
/// there is no memory for the record of what the thread does.
void run_current() {
  std::string why;
  try {
    body.call(body.callable);
    return;
  } catch (const OutOfMemory& lack) {
    why = lack.what();
  } catch (const std::bad_alloc&) {
    why = "out of memory on the host executor";
  } catch (const std::exception& e) {
    why = std::string("the kernel threw: ") + e.what();
  } catch (...) {
    why = "the kernel threw something that is no std::exception";
  }
  fail(*current, why);
}

/// What a fiber does: it runs threads, one after the other, for as long as they don't have to wait.
void run_fiber() {
  for (;;) {
    run_current();
    end_current();
    Lane* next = next_ready();
    if (next && !next->fiber) {  // a thread that starts can have this stack
      next->fiber = &Fiber::current();
      set_current(*next);
      continue;
    }
    fibers.put(Fiber::current());
    if (next) {
      set_current(*next);
      next->fiber->resume();
    } else if (alive_in_cluster > 0) {
      leave();
    } else {
      Fiber::caller().resume();
    }
    // Taken from the pool again, for a thread that starts: the current one.
  }
}

void go_on_with(Lane& lane) {
  if (!lane.fiber) lane.fiber = &fibers.take(&run_fiber);
  set_current(lane);
  if (lane.fiber != &Fiber::current()) lane.fiber->resume();
}

/// The running thread waits; returns when it has been made ready and its turn has come.
void wait() {
  if (Lane* const next = next_ready()) return go_on_with(*next);
  leave();
}

// --- Stacks that are too small -----------------------------------------------------------------

constexpr char kOverflow[] =
    "the local variables take more than 1 MiB: a GPU has 512 KiB for a thread's";

volatile sig_atomic_t overflowed = 0;  // whether the running thread's stack has

/// While one exists, a fault in the guard of the running fiber's stack ends the launch. Others are
/// for whoever handled them before.
class OverflowWatch {
 public:
  OverflowWatch() {
#if !defined(__SANITIZE_ADDRESS__)  // which has words of its own for this
    static char stack[64 << 10];    // for the handler: the thread's own is full
    const stack_t own{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    sigaltstack(&own, &stack_before_);
    struct sigaction action {};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // it may not return
    sigaction(SIGSEGV, &action, &before_);
#endif
  }
  ~OverflowWatch() {
#if !defined(__SANITIZE_ADDRESS__)
    sigaction(SIGSEGV, &before_, nullptr);
    sigaltstack(&stack_before_, nullptr);
#endif
  }
  OverflowWatch(const OverflowWatch&) = delete;
  OverflowWatch& operator=(const OverflowWatch&) = delete;

 private:
  static void on_fault(int, siginfo_t* fault, void*) {
    if (current && Fiber::current().guards(fault->si_addr)) {
      overflowed = 1;
      Fiber::caller().resume();
    }
    sigaction(SIGSEGV, &before_, nullptr);  // the access is repeated, and faults again
  }

  static inline struct sigaction before_;
  static inline stack_t stack_before_;
};

// --- Blocks ------------------------------------------------------------------------------------

void check_launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, unsigned cluster) {
  const auto refuse = [](const std::string& what) { throw std::runtime_error(what); };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (block.x > kMaxThreads || block.y > kMaxThreads || threads > kMaxThreads || threads == 0) {
    refuse("a block has 1 to 1024 threads, not " + to_string(uint3(block)));
  }
  if (block.z > kMaxBlockZ) {
    refuse("a block has at most 64 threads along z, not " + std::to_string(block.z));
  }
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    refuse("a grid has at most (2147483647,65535,65535) blocks, not " + to_string(uint3(grid)));
  }
  if (dynamic_shared_bytes > kMaxDynamicShared) {
    refuse("a block has at most 232448 bytes (227 KiB) of dynamic shared memory, not " +
           std::to_string(dynamic_shared_bytes));
  }
  if (cluster > kMostBlocks) {
    refuse("a cluster has at most 8 blocks, not " + std::to_string(cluster));
  }
  if (cluster > 0 && grid.x % cluster != 0) {
    refuse("a grid of " + to_string(uint3(grid)) + " blocks is none of clusters of " +
           std::to_string(cluster));
  }
#if defined(__SANITIZE_ADDRESS__)
  if (cluster > 1) refuse("under AddressSanitizer the host executor has no clusters");
#endif
}

void prepare_threads(dim3 block) {
  const unsigned threads = block.x * block.y * block.z;
  ready.reserve(threads);
  ready.seed(lane_order);
  lanes.assign(threads, {});
  for (unsigned i = 0; i < threads; ++i) {
    lanes[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    lanes[i].number = i;
    lanes[i].rank = BlockVariable::selected();
  }
  warps.resize((threads + kWarpSize - 1) / kWarpSize);
}

/// The selected block, which becomes block `index`.
void start_block(uint3 index) {
  if (BlockSlot::selected() >= index_of.size()) index_of.resize(BlockSlot::selected() + 1);
  index_of[BlockSlot::selected()] = index;
  forget_static_writes();
  begin_block(static_cast<unsigned>(lanes.size()));
  begin_block_of_launch(index);
  reset_async_copies();
  reset_releases();
  reset_mbarriers();
  reset_asynchronous_work();
  reset_registers();
  reset_reads();
  if (counting) begin_traces();
  barrier_state = {};
  polling = 0;
  alive = static_cast<unsigned>(lanes.size());
  alive_in_cluster += alive;
  for (std::size_t i = 0; i < warps.size(); ++i) warps[i] = {&lanes[i * kWarpSize], 0, 0};
  if (alive % kWarpSize != 0) warps.back().ended = ~0u << alive % kWarpSize;
  ready.clear();
  for (Lane& lane : lanes) {
    lane.fiber = nullptr;
    make_ready(lane);
  }
  if (in_cluster) begin_block_in_cluster();
}

/// How many blocks run at once, as far as warps and dynamic shared memory allow: nobody knows here how
/// many registers a thread has.
std::size_t blocks_at_once(dim3 block, std::size_t dynamic_shared_bytes) {
  const std::size_t warps_of_block = (block.x * block.y * block.z + kWarpSize - 1) / kWarpSize;
  const std::size_t of_sm = std::min({std::size_t{kMostBlocksOfSm}, kMostWarpsOfSm / warps_of_block,
                                      kSharedOfSm / (dynamic_shared_bytes + kSharedOfSystem)});
  return static_cast<std::size_t>(sm_count_of_kernels) * std::max(of_sm, std::size_t{1});
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kBesideEachOther = false;
#else
constexpr bool kBesideEachOther = true;
#endif

/// The selected launch, in progress.
struct Grid {
  /// Dispatched blocks are those that `next` gives, or the clusters that begin there.
  using Next = std::function<std::optional<uint3>()>;

  struct Dispatched {
    static constexpr unsigned kNone = ~0u;

    uint3 first;
    unsigned slot = kNone;        // until it begins
    std::uint64_t polled_at = 0;  // if it has begun: how much had changed then
    bool gave_way = false;        // and whether it goes on though nothing has changed

    bool has_begun() const { return slot != kNone; }
    bool is_able() const { return !has_begun() || gave_way || polled_at != changes; }
  };

  Grid(dim3 threads, std::size_t dynamic_shared_bytes, Next blocks_to_come)
      : block(threads),
        fills(std::max(blocks_at_once(threads, dynamic_shared_bytes) / blocks, std::size_t{1})),
        at_once(kBesideEachOther && !in_cluster ? fills : 1),
        next(std::move(blocks_to_come)) {}

  unsigned number = LaunchNumber::selected();
  unsigned blocks_each = blocks;  // of a cluster
  dim3 block;
  std::size_t fills;    // so many blocks, or clusters, fill the SMs
  std::size_t at_once;  // and so many are dispatched if no other launch is in progress
  Next next;
  std::vector<Dispatched> dispatched{};
  std::vector<unsigned> free_slots{};
};

/// Runs the blocks of grids, or their clusters, as a GPU may: those of each are dispatched in ascending
/// order, as many as run at once, and those that are go on in any order. Under the ascending order of
/// threads a block begins where none of the earlier ones can go on, else a random one of them does.
/// Clusters of a grid run one after the other, as do blocks under AddressSanitizer, whose memory can't
/// be moved.
///
/// Several grids share the SMs evenly: of each there are as many blocks as its part of them holds, one
/// at least. Under the ascending order they take turns.
class Grids {
 public:
  void add(Grid& grid) { grids_.push_back(&grid); }
  bool empty() const { return grids_.empty(); }

  /// Until one of them has ended, which it returns.
  Grid& run() {
    for (;;) {
      for (Grid* const grid : grids_) {
        if (grid->dispatched.empty() && !dispatch(*grid)) return remove(*grid);
        while (random_block != 0 && has_room(*grid) && dispatch(*grid)) {
        }
      }
      Turn turn = random_block == 0 ? choose_first() : choose_any();
      if (!turn.grid) turn = choose_waiting();
      give_turn(turn);
      auto& dispatched = turn.grid->dispatched;
      const auto at = dispatched.begin() + static_cast<std::ptrdiff_t>(turn.place);
      if (!at->has_begun()) dispatched.erase(at);
    }
  }

 private:
  using Dispatched = Grid::Dispatched;
  struct Turn {
    Grid* grid = nullptr;
    std::size_t place = 0;

    Dispatched& block() const { return grid->dispatched[place]; }
  };

  Grid& remove(Grid& grid) {
    std::vector<unsigned>& spare = spare_slots_[grid.blocks_each];
    spare.insert(spare.end(), grid.free_slots.begin(), grid.free_slots.end());
    std::erase(grids_, &grid);
    return grid;
  }

  bool has_room(const Grid& grid) const {
    const std::size_t most = std::max(grid.at_once / grids_.size(), std::size_t{1});
    if (grid.dispatched.size() >= most) return false;
    if (grids_.size() == 1) return true;
    double filled = 1.0 / static_cast<double>(grid.fills);  // of the SMs, with one more
    for (const Grid* each : grids_) {
      filled += static_cast<double>(each->dispatched.size()) / static_cast<double>(each->fills);
    }
    return filled < 1.000001;
  }

  static bool dispatch(Grid& grid) {
    const std::optional<uint3> first = grid.next();
    if (first) grid.dispatched.push_back({*first});
    return first.has_value();
  }

  /// The first that is able, of the grid after the one that had the last turn.
  Turn choose_first() {
    for (std::size_t i = 0; i < grids_.size(); ++i) {
      last_ = (last_ + 1) % grids_.size();
      Grid& grid = *grids_[last_];
      const auto able = std::ranges::find_if(grid.dispatched, &Dispatched::is_able);
      const auto place = static_cast<std::size_t>(able - grid.dispatched.begin());
      if (place < grid.dispatched.size() || (has_room(grid) && dispatch(grid))) {
        return {&grid, place};
      }
    }
    return {};
  }

  Turn choose_any() {
    std::ptrdiff_t able = 0;
    for (const Grid* grid : grids_) {
      able += std::ranges::count_if(grid->dispatched, &Dispatched::is_able);
    }
    if (able == 0) return {};
    auto skip = random_below(static_cast<std::size_t>(able), random_block);
    for (Turn turn{grids_.front()};; turn = next_place(turn)) {
      if (turn.block().is_able() && skip-- == 0) return turn;
    }
  }

  Turn next_place(Turn turn) const {
    if (++turn.place < turn.grid->dispatched.size()) return turn;
    const auto at = std::ranges::find(grids_, turn.grid) + 1;
    return {at == grids_.end() ? grids_.front() : *at};
  }

  /// None can go on. They may all look again, by turns, for so long: their loops may have an end.
  Turn choose_waiting() {
    if (idle_since_ != changes) idle_polls_ = 0;
    idle_since_ = changes;
    if (idle_polls_ > kMostIdlePolls) fail_waiting();
    std::size_t blocks_of_all = 0;
    for (const Grid* grid : grids_) blocks_of_all += grid->dispatched.size();
    waiting_ = (waiting_ + 1) % blocks_of_all;
    Turn turn{grids_.front()};
    for (std::size_t i = 0; i < waiting_; ++i) turn = next_place(turn);
    for_each_block(*turn.grid, turn.block().slot, [&] {
      for (Lane& lane : lanes) lane.poll.times = 0;
      idle_polls_ += std::uint64_t{polling} * kPolls;
    });
    return turn;
  }

  /// The block goes on until it ends, or all its threads wait, or it gives way.
  void give_turn(const Turn& turn) {
    Grid& grid = *turn.grid;
    Dispatched& d = turn.block();
    LaunchNumber::select(grid.number);
    if (d.has_begun()) {
      go_on(grid, d);
    } else {
      begin(grid, d);
    }
    if (Lane* const next = next_ready()) {
      go_on_with(*next);
    } else {
      error = deadlock_text();
    }
    if (overflowed) error = error_text(*current, kOverflow);
    overflowed = 0;
    current = nullptr;
    running_thread.any = false;
    if (!error.empty()) {
      fibers.reclaim();
      throw std::runtime_error(std::exchange(error, {}));
    }
    if (alive_in_cluster > 0) {
      d.polled_at = changes;
      d.gave_way = false;
      for_each_block(grid, d.slot, [&] {
        if (polling > 0) d.polled_at = std::min(d.polled_at, polled_at);
        d.gave_way |= !ready.empty() || (launches_overlap && has_copies_pending());
      });
      return;
    }
    for_each_block(grid, d.slot, [&] {
      for (unsigned i = 0; counting && i < warps.size(); ++i) merge_traces(i);
    });
    grid.free_slots.push_back(std::exchange(d.slot, Dispatched::kNone));
    --begun_;
    ++changes;
  }

  void begin(Grid& grid, Dispatched& d) {
    d.slot = take_slot(grid);
    allow_steps();
    begin_cluster(in_cluster);
    begin_cluster_barrier(blocks);
    alive_in_cluster = 0;
    block_index = d.first;
    for_each_block(grid, d.slot, [&] {
      start_block({d.first.x + BlockVariable::selected(), d.first.y, d.first.z});
    });
    if (begun_++ > 0 && !interleaved) {
      interleaved = true;
      begin_static_writes();
    }
    if (blocks == 1) move_in(0);
  }

  unsigned take_slot(Grid& grid) {
    if (grid.free_slots.empty()) {
      std::vector<unsigned>& spare = spare_slots_[grid.blocks_each];
      if (spare.empty()) {
        spare.push_back(slots_);
        slots_ += grid.blocks_each;
        add_shared(slots_);
      }
      grid.free_slots.push_back(spare.back());
      spare.pop_back();
      for_each_block(grid, grid.free_slots.back(), [&] { prepare_threads(grid.block); });
    }
    const unsigned slot = grid.free_slots.back();
    grid.free_slots.pop_back();
    return slot;
  }

  void go_on(const Grid& grid, const Dispatched& d) {
    if (d.gave_way) carry_out_pending(grid, d);
    for_each_block(grid, d.slot, [] {
      polling = 0;
      for (Lane& lane : lanes) {
        if (lane.state == Lane::State::polling) make_ready(lane);
      }
    });
    if (blocks > 1) return;
    move_in(0);
    block_index = d.first;
    cluster_began = block_began;
    alive_in_cluster = alive;
  }

  /// Asynchronous work, if no thread can run, until one can.
  void carry_out_pending(const Grid& grid, const Dispatched& d) {
    bool goes_on = false;
    for_each_block(grid, d.slot, [&] { goes_on |= !ready.empty(); });
    for_each_block(grid, d.slot, [&] {
      while (!goes_on && carry_out_next()) goes_on = !ready.empty();
    });
  }

  /// Of a cluster, or the one; the first is selected in the end.
  template <class F>
  static void for_each_block(const Grid& grid, unsigned slot, F work) {
    for (unsigned rank = grid.blocks_each; rank-- > 0;) {
      BlockVariable::select(slot, rank);
      work();
    }
  }

  /// None that has begun can go on, and no other may begin.
  [[noreturn]] void fail_waiting() {
    std::string text;
    for (std::size_t i = grids_.size(); i-- > 0;) {
      const bool others = i + 1 < grids_.size();
      text = waiting_text(*grids_[i]) +
             (others ? "; stream " + std::to_string(grids_[i + 1]->number) + ": " : "") + text;
    }
    fibers.reclaim();
    throw std::runtime_error(text);
  }

  std::string waiting_text(Grid& grid) {
    LaunchNumber::select(grid.number);
    const Lane* first = nullptr;
    std::string waiting;
    for_each_block(grid, grid.dispatched.front().slot, [&] {
      const std::string rank = "rank " + std::to_string(BlockVariable::selected()) + ": ";
      waiting =
          (blocks > 1 ? rank : "") + describe_waiting() + (waiting.empty() ? "" : "; ") + waiting;
      for (const Lane& lane : lanes) {
        if (lane.state == Lane::State::polling) first = &lane;
      }
    });
    std::string text = error_text(*first, "deadlock: " + waiting);
    const std::size_t begun = grid.dispatched.size();
    if (begun > 1) text += "; and " + std::to_string(begun - 1) + " other blocks wait";
    if (grid.next()) {
      text += in_cluster ? "; the clusters of a grid run one after the other here"
              : kBesideEachOther
                  ? "; others begin when one of these has ended: " + std::to_string(begun) +
                        (begun == 1 ? " block fills " : " blocks fill ") +
                        (grids_.size() > 1 ? "the launch's part of " : "") +
                        std::to_string(sm_count_of_kernels) + " SMs"
                  : "; under AddressSanitizer blocks run one after the other";
    }
    return text;
  }

  std::vector<Grid*> grids_;
  std::array<std::vector<unsigned>, kMostBlocks + 1> spare_slots_;  // by blocks of a cluster
  unsigned slots_ = 0;
  std::size_t begun_ = 0, last_ = 0, waiting_ = 0;
  std::uint64_t idle_since_ = 0, idle_polls_ = 0;
};

/// All blocks of a grid in ascending order, or of each cluster the first.
Grid::Next ascending(dim3 grid) {
  return [grid, step = blocks, at = uint3{}]() mutable -> std::optional<uint3> {
    if (grid.x == 0 || grid.y == 0 || at.z == grid.z) return std::nullopt;
    const uint3 first = at;
    at.x += step;
    if (at.x >= grid.x) at = {0, at.y + 1, at.z};
    if (at.y == grid.y) at = {0, 0, at.z + 1};
    return first;
  };
}

/// Those that choose_blocks says, and what is in a cluster with them.
Grid::Next chosen(dim3 grid) {
  std::vector<uint3> firsts;
  std::set<std::tuple<unsigned, unsigned, unsigned>> begun;
  for (uint3 index : choose_blocks(grid)) {
    index.x -= index.x % blocks;
    if (!in_cluster || begun.emplace(index.x, index.y, index.z).second) firsts.push_back(index);
  }
  return [firsts = std::move(firsts), i = std::size_t{0}]() mutable -> std::optional<uint3> {
    if (i == firsts.size()) return std::nullopt;
    return firsts[i++];
  };
}

/// The selected launch begins.
Grid begin_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, unsigned cluster,
                Body kernel) {
  blocks = std::max(cluster, 1u);
  in_cluster = cluster > 0;
  body = kernel;
  block_dim = block;
  grid_dim = grid;
  set_dynamic_shared(dynamic_shared_bytes);
  begin_launch();
  return {block, dynamic_shared_bytes, choose_blocks ? chosen(grid) : ascending(grid)};
}

// --- Streams -----------------------------------------------------------------------------------

/// Host work whose launches overlap those of others.
struct Stream {
  unsigned number;
  const std::function<void()>* work;
  const void* launch_stream;  // that its launches go into
  Fiber* fiber = nullptr;     // that it runs on, until it has ended
  Grid* grid = nullptr;       // its launch in progress
  std::exception_ptr error{};
};
constexpr std::size_t kMostStreams = 1 << kLaunchBits;

FiberPool stream_fibers;
Stream* running_stream = nullptr;
bool streams_end = false;  // as one of them has failed

/// What a launch throws then.
struct StreamsEnd {};

void run_stream() {
  for (;;) {
    try {
      (*running_stream->work)();
    } catch (const StreamsEnd&) {
    } catch (...) {
      running_stream->error = std::current_exception();
    }
    stream_fibers.put(*std::exchange(running_stream->fiber, nullptr));
    Fiber::caller().resume();
  }
}

/// Its host code goes on until it launches a kernel, or ends.
void go_on_with(Stream& stream) {
  LaunchNumber::select(stream.number);
  running_stream = &stream;
  stream.grid = nullptr;
  std::swap(launch_stream, stream.launch_stream);
  stream.fiber->resume();
  std::swap(launch_stream, stream.launch_stream);
  running_stream = nullptr;
}

/// Of the running stream. Others' grids are in progress until it has ended.
void run_in_stream(Grid grid) {
  running_stream->grid = &grid;
  Fiber::caller().resume();
  if (streams_end) throw StreamsEnd{};
}

[[noreturn]] void fail_stream(unsigned number, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw std::runtime_error("stream " + std::to_string(number) + ": " + e.what());
  }
}

}  // namespace

std::uint64_t changes = 0;

void run_threads(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, unsigned cluster,
                 Body kernel) {
  check_launch(grid, block, dynamic_shared_bytes, cluster);
  if (running_stream) {
    if (streams_end) throw StreamsEnd{};
    if (counting) throw std::runtime_error("launches that run together are not counted");
    return run_in_stream(begin_grid(grid, block, dynamic_shared_bytes, cluster, kernel));
  }
  LaunchNumber::select(0);
  BlockVariable::select(0, 0);
  interleaved = false;
  random_block = lane_order;
  prepare_shared();
  const OverflowWatch watch;
  Grid begun = begin_grid(grid, block, dynamic_shared_bytes, cluster, kernel);
  if (recording) begin_recorded_launch(grid, block, dynamic_shared_bytes, cluster);
  Grids grids;
  grids.add(begun);
  grids.run();
}

namespace {

void run_streams(std::span<const std::function<void()>> work, bool of_one_problem) {
  if (running_stream) throw std::runtime_error("streams are running together already");
  if (work.size() > kMostStreams) throw std::runtime_error("at most 64 streams run together");
  if (!kBesideEachOther) {
    for (unsigned i = 0; i < work.size(); ++i) {
      try {
        work[i]();
      } catch (...) {
        fail_stream(i, std::current_exception());
      }
    }
    return;
  }
  std::vector<Stream> streams;
  for (unsigned i = 0; i < work.size(); ++i) streams.push_back({i, &work[i], launch_stream});
  BlockVariable::select(0, 0);
  random_block = lane_order;
  prepare_shared();
  const OverflowWatch watch;
  begin_overlap(of_one_problem);
  std::exception_ptr failure;
  try {
    Grids grids;
    const auto go_on = [&](Stream& stream) {
      go_on_with(stream);
      if (stream.error) std::rethrow_exception(stream.error);
      if (stream.grid) grids.add(*stream.grid);
    };
    for (Stream& stream : streams) {
      stream.fiber = &stream_fibers.take(&run_stream);
      go_on(stream);
    }
    while (!grids.empty()) go_on(streams[grids.run().number]);
  } catch (...) {
    failure = std::current_exception();
  }
  const unsigned last = LaunchNumber::selected();
  end_overlap();
  if (!failure) return;
  fibers.reclaim();
  streams_end = true;
  for (Stream& stream : streams) {
    if (stream.fiber) go_on_with(stream);
  }
  streams_end = false;
  fail_stream(last, failure);
}

}  // namespace

void run_together(std::span<const std::function<void()>> work) { run_streams(work, false); }
void run_on_devices(std::span<const std::function<void()>> work) { run_streams(work, true); }

void set_sm_count(int count) { sm_count_of_kernels = count; }
int sm_count() { return sm_count_of_kernels; }

void set_blocks(BlockChoice choose) { choose_blocks = std::move(choose); }

LaunchStream::LaunchStream(const void* stream) : before_(std::exchange(launch_stream, stream)) {}
LaunchStream::~LaunchStream() { launch_stream = before_; }

void expect_stream(const void* stream) {
  if (stream == launch_stream) return;
  throw std::runtime_error(
      stream ? "a launch into another stream than the one that launch() was given"
             : "a launch into the null stream, not the one that launch() was given");
}

void set_lane_order(unsigned seed) { lane_order = seed; }

bool is_eager() { return lane_order % 2 != 0; }

void park(const void* object, std::uint64_t detail, Describe describe, std::source_location at) {
  Lane& lane = *current;
  lane.state = Lane::State::parked;
  lane.at = at;
  lane.object = object;
  lane.detail = detail;
  lane.describe = describe;
  wait();
}

void let_others_run() {
  const unsigned rank = current->rank;
  make_ready(*current);
  for (unsigned i = 1; i <= blocks; ++i) {
    BlockVariable::select((rank + i) % blocks);
    if (Lane* const next = ready.pop()) return go_on_with(*next);
  }
}

void poll(const void* pc, const void* address) {
  Lane& lane = *current;
  auto& last = lane.poll;
  if (last.pc != pc || last.address != address) {
    if (!last.pc || ++last.others == kMostPolled) last = {address, pc, changes, 0, 0};
    return;
  }
  const bool nothing_new = std::exchange(last.changes, changes) == changes;
  last.times = nothing_new ? last.times + 1 : 0;
  last.others = 0;
  if (last.times < kPolls) return;
  lane.state = Lane::State::polling;
  if (polling++ == 0) polled_at = changes;
  wait();
}

void wake(const void* object) {
  for (Lane& lane : lanes) {
    if (lane.state == Lane::State::parked && lane.object == object) make_ready(lane);
  }
}

void meet() {
  end_interval();
  if (!counting) return;
  for (unsigned i = 0; i < warps.size(); ++i) trace_meeting(i, ~warps[i].ended, warps[i].ended);
}

unsigned threads_of_block() { return alive; }
unsigned threads_of_cluster() { return alive_in_cluster; }
unsigned blocks_of_cluster() { return blocks; }
unsigned block_rank() { return BlockVariable::selected(); }
uint3 selected_block() { return index_of[BlockSlot::selected()]; }

long long clock() {
  static long long count = 0;
  return count += 1000;
}

Votes barrier(bool vote, std::source_location at) {
  Lane& lane = *current;
  lane.state = Lane::State::at_barrier;
  lane.at = at;
  if (barrier_state.arrived == 0) barrier_state.first = &lane;
  const std::source_location expected = barrier_state.first->at;
  const bool same_file = at.file_name() == expected.file_name() ||
                         std::strcmp(at.file_name(), expected.file_name()) == 0;
  if (!same_file || at.line() != expected.line() || at.column() != expected.column()) {
    fail(lane, disagreement("threads of one block meet at different barriers", lane,
                            *barrier_state.first));
  }
  barrier_state.yes += vote;
  if (++barrier_state.arrived == alive) {
    release_barrier();
    if (launches_overlap && random_block != 0 && random_below(kGivesWay, random_block) == 0) {
      Fiber::caller().resume();
      return barrier_state.result;
    }
  }
  wait();
  return barrier_state.result;
}

void collective(const Collective& what, unsigned mask, void* record, std::source_location at) {
  Lane& lane = *current;
  Warp& warp = warps[lane.warp()];
  lane.state = Lane::State::in_collective;
  lane.at = at;
  lane.collective = &what;
  lane.mask = mask;
  lane.record = record;
  if (!(mask & lane.bit())) fail(lane, waits_at(lane) + ": the caller is not in its own mask");
  warp.in_collective |= lane.bit();
  try_complete(warp, mask);
  wait();
}

void fail_thread(std::string what) { fail(*current, what); }

std::string thread_text(unsigned number) { return to_string(lanes[number].index); }

unsigned lane_id() { return current->number % kWarpSize; }

unsigned lanes_alive() { return ~warps[current->warp()].ended; }

void fail_collective(unsigned lane_number, std::string what) {
  const Lane& lane = warps[current->warp()].lanes[lane_number];
  fail(lane, waits_at(lane) + ": " + what);
}

}  // namespace ladder::host
