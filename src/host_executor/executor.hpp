// The host executor: runs the blocks of a launch one after the other, and the threads of a block by
// turns, on the CPU thread that calls it. The same launch always runs in the same order. Of a
// cluster a block runs until none of its threads can, and then another one; and so do blocks that
// wait for another one in a loop around a volatile or atomic access.
//
// A thread runs until it must wait for others or ends. One that must wait needs a stack to come
// back to, a fiber; those that never wait run one after the other on the same fiber, so that a
// kernel without barriers costs hardly more than a loop.
//
// Launches of several streams may be in progress at once: run_together().
//
// Every wait carries its place in the source, for the messages of errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <vector_types.h>

#include "host_executor/counts.hpp"
#include "host_executor/races.hpp"

namespace ladder::host {

/// What every thread of a launch runs: a callable, by reference.
struct Body {
  void (*call)(const void* callable);
  const void* callable;
};

/// Runs body once for every thread of every block; `cluster` blocks along x are a cluster, and none
/// if it is 0. Throws std::runtime_error when the launch is not one a GPU can make, and when the
/// kernel does what would hang or be undefined on a GPU; such a message starts with the block and
/// the thread.
void run_threads(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, unsigned cluster,
                 Body body);

template <class F>
void run(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, unsigned cluster, const F& body) {
  run_threads(grid, block, dynamic_shared_bytes, cluster,
              {[](const void* callable) { (*static_cast<const F*>(callable))(); }, &body});
}

/// Runs pieces of host work side by side, each as if it were a stream: its launches come one after
/// another, and grids of different streams are in progress at once. Their blocks share the SMs, and go
/// on in the order of set_lane_order(). An error ends all of them and is thrown with the stream's
/// number. (Under AddressSanitizer streams run one after another.)
void run_together(std::span<const std::function<void()>> streams);

/// The same of one problem's launches on several devices: they may share memory, and wait for each other. What
/// blocks of a launch have released or acquired orders that launch's accesses alone, not those of others of its
/// stream.
void run_on_devices(std::span<const std::function<void()>> streams);

/// The blocks of a grid that run, in their order.
using BlockChoice = std::function<std::vector<uint3>(dim3 grid)>;

/// Lets launches run no more than these blocks and those of their clusters, whose accesses are
/// checked as always: so the limits of a kernel are tried on problems that are too large to be
/// computed. Null: all blocks.
void set_blocks(BlockChoice choose);

/// How many multiprocessors kernels find, to fill them: 2, so that little work fills them.
void set_sm_count(int count);
int sm_count();

/// While one exists, launches must go into this stream; otherwise into the null stream.
class LaunchStream {
 public:
  explicit LaunchStream(const void* stream);
  ~LaunchStream();
  LaunchStream(const LaunchStream&) = delete;
  LaunchStream& operator=(const LaunchStream&) = delete;

 private:
  const void* before_;
};
/// Throws std::runtime_error if launches must go into another stream.
void expect_stream(const void* stream);

/// The order in which threads take turns, and blocks that are dispatched: 0 is ascending, any other
/// value seeds a random one.
void set_lane_order(unsigned seed);

// The rest is for the CUDA functions that are built on the executor, and is called by the running
// thread of a kernel.

/// What the threads that met at a barrier said.
struct Votes {
  unsigned yes;
  unsigned threads;
};

/// Waits until every thread of the block that has not ended is at this barrier.
Votes barrier(bool vote, std::source_location at);

/// Something the lanes of a warp do together.
struct Collective {
  const char* name;
  /// Called once, when all have arrived: records[i] is what lane i brought, for the bits of lanes.
  void (*complete)(void* const* records, unsigned lanes);
};

/// Waits until the lanes in mask, less those that have ended, are in the same collective.
void collective(const Collective& what, unsigned mask, void* record, std::source_location at);

/// What a thread waits for that other threads, or asynchronous work, bring about; in messages.
using Describe = std::string (*)(const void* object, std::uint64_t detail);

/// The running thread waits until someone wakes those that wait for the object.
void park(const void* object, std::uint64_t detail, Describe describe, std::source_location at);
void wake(const void* object);  // of the selected block
/// The running thread has its turn again when others, of other blocks first, have had theirs.
void let_others_run();

/// The running thread is about to make a volatile or atomic access. If it has come back to it often
/// it waits for others: it goes on when something has changed that it may have been waiting for.
void poll(const void* pc, const void* address);
/// How much has: stores to global memory, volatile ones to shared memory, atomic operations that
/// change something, and blocks that have ended.
extern std::uint64_t changes;

/// Asynchronous work is carried out as late as the program allows, when no thread can run, under
/// the ascending order of threads and every even one; under the others as soon as it is asked for.
bool is_eager();

/// All threads of the selected block (per_block.hpp) that have not ended have met. How many those
/// are, there and in its cluster.
void meet();
unsigned threads_of_block();
unsigned threads_of_cluster();

unsigned blocks_of_cluster();
unsigned block_rank();

/// The index in the grid of the selected block (per_block.hpp).
uint3 selected_block();

/// A count that rises as the threads run; no measure of time.
long long clock();

/// What every access asks for, without a call: whether a thread is running, which is false in the code
/// around kernels, and its number in its block. Set by executor.cpp alone.
struct Running {
  bool any = false;
  unsigned number = 0;
};
inline Running running_thread;
inline unsigned thread_number() { return running_thread.number; }
inline bool in_kernel() { return running_thread.any; }

/// The running thread's lane, 0 to 31.
unsigned lane_id();

/// The lanes of the running thread's warp that have not ended.
unsigned lanes_alive();

/// Ends the launch with an error of this lane's, for Collective::complete.
[[noreturn]] void fail_collective(unsigned lane, std::string what);

/// Ends the launch with an error of the running thread's.
[[noreturn]] void fail_thread(std::string what);

/// A thread of the block for messages: "(5,0,0)".
std::string thread_text(unsigned number);

/// Tells of an access that the compiler does not report; pc is the return address of the kernel's
/// call. Ends the launch if a GPU would not carry it out.
void note_access(const void* pc, const void* address, std::size_t bytes, Access access);

/// The same of one that may meet others of its kind, and orders nothing by itself.
void note_strong(const void* pc, const void* address, std::size_t bytes, Access access);

/// Tells of a cp.async of `bytes` bytes, of which it reads the first valid_bytes.
void note_copy(const void* pc, const void* shared, const void* global, std::size_t bytes,
               std::size_t valid_bytes);

/// Where bytes of shared memory are. Ends the launch if they are not all in it.
struct SharedRange {
  SharedPart part;
  std::size_t offset;
};
SharedRange shared_range(const void* pc, const void* address, std::size_t bytes, Access access);

/// Tells of an asynchronous access to global memory, of any size. Ends the launch if it is out of
/// bounds.
void note_global(const void* pc, const void* address, std::size_t bytes, Access access);

/// Tells that the running thread's asynchronous writes to this address of global memory are complete.
void note_written(const void* address, std::size_t bytes);

/// Tells that a cp.async of the running thread's to this address of shared memory is complete.
void note_arrival(const void* address, std::size_t bytes);

}  // namespace ladder::host
