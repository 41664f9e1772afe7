// What ends a kernel on the host executor in global memory, between blocks and at its launch. And
// that nothing else does.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "device/ptx/cp_async.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/tma.hpp"
#include "host_kernels.hpp"

#if !defined(__SANITIZE_ADDRESS__)  // whose instrumentation takes the place of the checks'

namespace {

using namespace ladder::test;
using ladder::launch;
using namespace ladder::ptx;

std::string at(int line) { return " at host_global_faults_test.cpp:" + std::to_string(line) + " "; }

// --- Races within a block ------------------------------------------------------------------------

enum class Fence { none, shuffle, warp, block };

__device__ void fence(Fence kind) {
  if (kind == Fence::shuffle) __shfl_xor_sync(kAllLanes, 1, 1);
  if (kind == Fence::warp) __syncwarp();
  if (kind == Fence::block) __syncthreads();
}

__global__ void add_all(float* sum) { *sum += 1.0f; }
constexpr int kAddAll = __LINE__ - 1;

TEST_P(AnyOrder, AThousandThreadsAddToOneNumber) {
  Array<float> sum(1);
  const std::string error = error_of([&] { run_block(1024, add_all, sum); });
  EXPECT_TRUE(
      contains(error, "race in global memory: the load" + at(kAddAll) + "and the store of "));
  EXPECT_TRUE(contains(error, at(kAddAll) + "have no __syncthreads between them"));
  EXPECT_EQ(error_of([&] { launch(add_all, 1, 1, 0, nullptr, sum); }), "");
}

/// Thread t writes, and then reads what thread t ^ distance wrote.
template <class T>
__global__ void exchange(T* values, float* out, unsigned distance, Fence kind) {
  values[threadIdx.x] = T{2};
  fence(kind);
  out[threadIdx.x] = static_cast<float>(values[threadIdx.x ^ distance]);
}
constexpr int kWrite = __LINE__ - 4, kRead = __LINE__ - 2;

template <class T>
void expect_read_after_write() {
  Array<T> values(64);
  Array<float> out(64);
  const auto error = [&](unsigned distance, Fence kind) {
    return error_of([&] { run_block(64, exchange<T>, values, out, distance, kind); });
  };
  for (const Fence kind : {Fence::none, Fence::shuffle}) {
    const std::string text = error(1, kind);
    EXPECT_TRUE(contains(text, "race in global memory: the "));
    EXPECT_TRUE(contains(text, ":" + std::to_string(kRead)));
    EXPECT_TRUE(contains(text, ":" + std::to_string(kWrite)));
    EXPECT_TRUE(contains(text, "have no __syncwarp between them"));
  }
  EXPECT_EQ(error(1, Fence::warp), "");
  for (const Fence kind : {Fence::none, Fence::shuffle, Fence::warp}) {
    EXPECT_TRUE(contains(error(32, kind), "have no __syncthreads between them"));
  }
  EXPECT_EQ(error(32, Fence::block), "");
  EXPECT_EQ(error(0, Fence::none), "") << "a thread and itself";
}

TEST_P(AnyOrder, ReadAfterWriteInGlobalMemory) { expect_read_after_write<float>(); }
TEST_P(AnyOrder, ReadAfterWriteOfShorts) { expect_read_after_write<short>(); }

/// In place, by threads that should have met in between.
__global__ void shift(float* values, Fence kind) {
  const float next = values[threadIdx.x + 1];
  fence(kind);
  values[threadIdx.x] = next;
}

TEST_P(AnyOrder, WriteAfterReadInGlobalMemory) {
  Array<float> values(65);
  const auto error = [&](Fence kind) {
    return error_of([&] { run_block(64, shift, values, kind); });
  };
  EXPECT_TRUE(contains(error(Fence::none), "race in global memory"));
  EXPECT_TRUE(contains(error(Fence::warp), "__syncthreads"));
  EXPECT_EQ(error(Fence::block), "");
}

__global__ void write_at(float* out, unsigned divisor) { out[threadIdx.x / divisor] = 1.0f; }

TEST_P(AnyOrder, WriteAfterWriteInGlobalMemory) {
  Array<float> out(64);
  EXPECT_EQ(error_of([&] { run_block(64, write_at, out, 1u); }), "");
  EXPECT_TRUE(
      contains(error_of([&] { run_block(64, write_at, out, 2u); }), "race in global memory"));
}

/// Four floats at once, then the bytes of some.
__global__ void words_then_bytes(float4* values, float* out, Fence kind) {
  if (threadIdx.x < 16) values[threadIdx.x] = make_float4(1, 2, 3, 4);
  fence(kind);
  out[threadIdx.x] = reinterpret_cast<const char*>(values)[4 * threadIdx.x + 3];
}

TEST_P(AnyOrder, WidthsMeetInGlobalMemory) {
  Array<float4> values(16);
  Array<float> out(64);
  EXPECT_EQ(error_of([&] { run_block(64, words_then_bytes, values, out, Fence::block); }), "");
  Array<float4> fresh(16);
  EXPECT_TRUE(contains(error_of([&] { run_block(64, words_then_bytes, fresh, out, Fence::warp); }),
                       "race in global memory"));
}

__global__ void tally(unsigned* counts, unsigned* out, Fence kind) {
  atomicAdd(&counts[threadIdx.x % 2], 1u);
  fence(kind);
  if (threadIdx.x < 2) out[threadIdx.x] = counts[threadIdx.x];
}

TEST_P(AnyOrder, AtomicOperationsInGlobalMemoryRaceOnlyWithOthers) {
  Array<unsigned> counts(2), out(2);
  EXPECT_EQ(error_of([&] { run_block(64, tally, counts, out, Fence::block); }), "");
  EXPECT_EQ(out[0], 32u);
  EXPECT_TRUE(contains(error_of([&] { run_block(64, tally, counts, out, Fence::none); }),
                       "race in global memory"));
}

// --- Races between blocks ------------------------------------------------------------------------

__global__ void add_blocks(float* sum) { *sum += 1.0f; }
constexpr int kAddBlocks = __LINE__ - 1;

TEST_P(AnyOrder, BlocksAddToOneNumber) {
  Array<float> sum(1);
  const std::string error = error_of([&] { launch(add_blocks, dim3(2, 3), 1, 0, nullptr, sum); });
  EXPECT_TRUE(contains(error, ",0) thread (0,0,0): race in global memory: the load" +
                                  at(kAddBlocks) + "and the store of block ("));
  EXPECT_TRUE(contains(error, ",0) thread (0,0,0)" + at(kAddBlocks) +
                                  "are in no order: between blocks that takes a "));
  EXPECT_EQ(error_of([&] { launch(add_blocks, 1, 1, 0, nullptr, sum); }), "") << "another launch";
}

__global__ void overlap(float* out, unsigned step) { out[blockIdx.x * step + threadIdx.x] = 1.0f; }

TEST_P(AnyOrder, TilesOverlap) {
  Array<float> out(128);
  EXPECT_EQ(error_of([&] { launch(overlap, 2, 64, 0, nullptr, out, 64u); }), "");
  EXPECT_TRUE(contains(error_of([&] { launch(overlap, 2, 64, 0, nullptr, out, 63u); }),
                       ": race in global memory: the store"));
}

/// Which fence is left out.
enum class Lacks { nothing, before_the_ticket, behind_the_ticket, the_ticket, the_barrier };

/// The last block adds up what all have written, one number per thread.
template <Lacks kLacks, bool kEachThread>
__global__ void last_block_adds(float* numbers, unsigned* done, float* sum) {
  numbers[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
  if (kEachThread && kLacks != Lacks::before_the_ticket) __threadfence();
  if (kLacks != Lacks::the_barrier) __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    if (!kEachThread && kLacks != Lacks::before_the_ticket) __threadfence();
    if (kLacks != Lacks::the_ticket) {
      is_last = atomicAdd(done, 1u) == gridDim.x - 1;
    } else {
      is_last = blockIdx.x == gridDim.x - 1;
    }
    if (!kEachThread && kLacks != Lacks::behind_the_ticket) __threadfence();
  }
  is_last = __syncthreads_or(is_last);
  if (kEachThread && kLacks != Lacks::behind_the_ticket) __threadfence();
  if (!is_last) return;
  for (unsigned i = 0; i < gridDim.x; ++i) {
    atomicAdd(sum, numbers[i * blockDim.x + threadIdx.x]);
  }
}
constexpr int kAddNumbers = __LINE__ - 3;

template <Lacks kLacks, bool kEachThread>
std::string error_of_last_block() {
  Array<float> numbers(5 * 64), sum(1);
  Array<unsigned> done(1);
  const std::string error = error_of(
      [&] { launch(last_block_adds<kLacks, kEachThread>, 5, 64, 0, nullptr, numbers, done, sum); });
  EXPECT_TRUE(!error.empty() || sum[0] == 5.0f * 64);
  return error;
}

TEST_P(AnyOrder, TheLastBlockSeesWhatTheOthersWrote) {
  EXPECT_EQ((error_of_last_block<Lacks::nothing, false>()), "");
  EXPECT_EQ((error_of_last_block<Lacks::nothing, true>()), "");
}

TEST_P(AnyOrder, WithoutAFenceTheLastBlockDoesNot) {
  const auto expect_race = [](const std::string& error) {
    EXPECT_TRUE(contains(error, "race in global memory: the "));
    EXPECT_TRUE(contains(error, " load") && contains(error, at(kAddNumbers)));
    EXPECT_TRUE(contains(error, "are in no order: between blocks"));
  };
  expect_race(error_of_last_block<Lacks::before_the_ticket, false>());
  expect_race(error_of_last_block<Lacks::before_the_ticket, true>());
  expect_race(error_of_last_block<Lacks::behind_the_ticket, false>());
  expect_race(error_of_last_block<Lacks::behind_the_ticket, true>());
  expect_race(error_of_last_block<Lacks::the_ticket, false>());
  expect_race(error_of_last_block<Lacks::the_ticket, true>());
}

TEST(LastBlock, NeedsABarrierBeforeItsTicket) {  // ascending: thread 0 is the first
  EXPECT_TRUE(contains((error_of_last_block<Lacks::the_barrier, false>()), "are in no order"));
}

/// The lanes of a warp fence what they wrote, one of them takes the ticket.
__global__ void warps_add(float* numbers, unsigned* done, float* sum, bool fenced, bool met) {
  numbers[blockIdx.x * 32 + threadIdx.x] = 1.0f;
  if (fenced) __threadfence();
  if (met) __syncwarp();
  unsigned before = 0;
  if (threadIdx.x == 0) {
    before = atomicAdd(done, 1u);
    __threadfence();
  }
  __syncwarp();
  if (__shfl_sync(kAllLanes, before, 0) != gridDim.x - 1) return;
  for (unsigned i = 0; i < gridDim.x; ++i) atomicAdd(sum, numbers[i * 32 + threadIdx.x]);
}

TEST(LastBlock, OfWarps) {
  for (const bool fenced : {true, false}) {
    for (const bool met : {true, false}) {
      Array<float> numbers(3 * 32), sum(1);
      Array<unsigned> done(1);
      const std::string error =
          error_of([&] { launch(warps_add, 3, 32, 0, nullptr, numbers, done, sum, fenced, met); });
      EXPECT_EQ(error.empty(), fenced && met) << error;
    }
  }
}

/// Each block adds its number to what the block before it has passed on.
__global__ void chain(float* sums, volatile unsigned* flags, bool fenced) {
  if (threadIdx.x > 0) return;
  float before = 0;
  if (blockIdx.x > 0) {
    while (flags[blockIdx.x - 1] == 0) continue;
    if (fenced) __threadfence();
    before = sums[blockIdx.x - 1];
    if (blockIdx.x > 1) before += 0 * sums[0];
  }
  sums[blockIdx.x] = before + 1.0f;
  __threadfence();
  flags[blockIdx.x] = 1;
}

TEST_P(AnyOrder, WhatABlockKnowsItPassesOn) {
  Array<float> sums(6);
  Array<unsigned> flags(6);
  EXPECT_EQ(error_of([&] { launch(chain, 6, 32, 0, nullptr, sums, flags, true); }), "");
  EXPECT_EQ(sums[5], 6.0f);
  std::fill(flags.begin(), flags.end(), 0u);
  EXPECT_TRUE(contains(error_of([&] { launch(chain, 6, 32, 0, nullptr, sums, flags, false); }),
                       "block (1,0,0) thread (0,0,0): race in global memory"));
}

// --- Far out of bounds ---------------------------------------------------------------------------

__global__ void load_far(const float* in, float* out, std::ptrdiff_t i) { out[0] = in[i]; }
constexpr int kLoadFar = __LINE__ - 1;

TEST_P(AnyOrder, NoIndexThatIsWrongMeetsAnotherArray) {
  Array<float> before(100), data(100), behind(100), out(1);
  for (const std::ptrdiff_t i : {-1l << 29, -1l << 20, -5000l, 5000l, 1l << 20, 1l << 29}) {
    EXPECT_TRUE(contains(error_of([&] { run_block(1, load_far, data, out, i); }),
                         "the load of 4 bytes" + at(kLoadFar) + "is out of bounds: "))
        << i;
  }
}

TEST_P(AnyOrder, AnIndexThatOverflowedMeetsNoOtherArray) {
  constexpr std::size_t kSize = (std::size_t{1} << 31) + 100;
  float* arrays[3];
  for (float*& array : arrays) {
    array = static_cast<float*>(ladder::host::allocate(kSize * sizeof(float)));
  }
  Array<float> out(1);
  const auto load = [&](std::size_t i) {
    const std::ptrdiff_t wrapped = static_cast<int>(static_cast<unsigned>(i));
    return error_of([&] { run_block(1, load_far, arrays[1], out, wrapped); });
  };
  EXPECT_EQ(load((std::size_t{1} << 31) - 1), "");
  EXPECT_TRUE(contains(load(std::size_t{1} << 31), "is out of bounds: "));
  EXPECT_TRUE(contains(load(kSize - 1), "is out of bounds: "));
  for (float* array : arrays) ladder::host::release(array);
}

// --- Variables that outlive a launch --------------------------------------------------------------

__device__ unsigned blocks_done, rows_done[4];
__device__ float4 kept;
__device__ unsigned factor = 7;
enum class Changes { nothing, by_adding, by_storing, through_a_pointer, asynchronously, in_bulk };

/// Of variables that are the program's, and of shared memory, which is the block's.
template <Changes kChanges>
__global__ void change(unsigned* out, const unsigned* in) {
  __shared__ unsigned seen[64];
  __shared__ unsigned sum;
  __shared__ __align__(16) float4 row;
  const unsigned t = threadIdx.x;
  seen[t] = factor * t;
  if (t == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, seen[t]);
  if (kChanges == Changes::by_adding && t == 5) atomicAdd(&blocks_done, 1u);
  if (kChanges == Changes::by_storing && t == 5) rows_done[3] = sum;
  if (kChanges == Changes::through_a_pointer && t == 5) {
    *reinterpret_cast<volatile unsigned*>(in ? rows_done + 1 : out) = 1;
  }
  if (kChanges == Changes::asynchronously && t == 5) cp_async<4>(&blocks_done, in);
  if (kChanges == Changes::in_bulk && t == 5) {
    row = {};
    fence_proxy_async();
    bulk_store(&kept, &row, sizeof row);
    bulk_commit_group();
    bulk_wait_group<0>();
  }
  __syncthreads();
  if (t == 0) out[blockIdx.x] = sum + rows_done[0] + blocks_done + static_cast<unsigned>(kept.x);
}
constexpr int kChangeLine = __LINE__ - 16;  // that adds

template <Changes kChanges>
std::string error_of_changing() {
  Array<unsigned> out(2), in(4);
  blocks_done = rows_done[0] = 1;  // as the host may
  const std::string error = error_of([&] { launch(change<kChanges>, 2, 64, 0, nullptr, out, in); });
  EXPECT_TRUE(!error.empty() || out[1] == 7 * 63 * 32 + 2) << out[1];
  return error;
}

TEST_P(AnyOrder, VariablesThatOutliveALaunchMayBeRead) {
  EXPECT_EQ(error_of_changing<Changes::nothing>(), "");
}

TEST_P(AnyOrder, NoKernelChangesAVariableThatOutlivesItsLaunch) {
  const std::string error = error_of_changing<Changes::by_adding>();
  EXPECT_TRUE(contains(error, ",0,0) thread (5,0,0): the atomic operation of 4 bytes" +
                                  at(kChangeLine) +
                                  "changes the __device__ variable blocks_done: "
                                  "it outlives the launch, and all launches share it"));
  EXPECT_TRUE(contains(error, "state belongs in the bytes of Call::state"));
  const auto expect = [](const std::string& text, const char* what, int line, const char* name) {
    EXPECT_TRUE(contains(text, "the " + (what + at(kChangeLine + line)) +
                                   "changes the __device__ variable " + name + ": "));
  };
  expect(error_of_changing<Changes::by_storing>(), "store of 4 bytes", 1, "rows_done");
  expect(error_of_changing<Changes::through_a_pointer>(), "store of 4 bytes", 3, "rows_done");
  expect(error_of_changing<Changes::asynchronously>(), "cp.async of 4 bytes", 5, "blocks_done");
  expect(error_of_changing<Changes::in_bulk>(), "bulk store of 16 bytes", 9, "kept");
  EXPECT_EQ(blocks_done, 1u);
  EXPECT_EQ(error_of_changing<Changes::nothing>(), "") << "it works after an error";
}

// --- Blocks that wait for blocks -------------------------------------------------------------------

enum class Waits { for_earlier, for_later, in_a_ring };

/// Every block adds its number to what another one has published, and publishes it.
template <Waits kWaits, bool kFences = true>
__global__ void pass_on(unsigned* numbers, unsigned* sums) {
  const unsigned last = gridDim.x - 1, own = blockIdx.x;
  const bool waits = kWaits == Waits::in_a_ring || own != (kWaits == Waits::for_earlier ? 0 : last);
  const unsigned from = kWaits == Waits::for_earlier ? own - 1 : own == last ? 0 : own + 1;
  unsigned sum = own;
  if (threadIdx.x == 0 && waits) {
    while (static_cast<volatile unsigned*>(numbers)[from] == 0) continue;
    if (kFences) __threadfence();
    sum += sums[from];
  }
  if (threadIdx.x == 0) {
    sums[own] = sum;
    if (kFences) __threadfence();
    static_cast<volatile unsigned*>(numbers)[own] = 1;
  }
}
constexpr int kWaitLine = __LINE__ - 10;

template <Waits kWaits, bool kFences = true>
std::string error_of_passing_on(unsigned blocks, unsigned threads) {
  Array<unsigned> numbers(blocks), sums(blocks);
  const auto kernel = pass_on<kWaits, kFences>;
  const std::string error =
      error_of([&] { launch(kernel, blocks, threads, 0, nullptr, numbers, sums); });
  const unsigned end = kWaits == Waits::for_earlier ? blocks - 1 : 0;
  EXPECT_TRUE(!error.empty() || sums[end] == blocks * (blocks - 1) / 2) << sums[end];
  return error;
}

TEST_P(AnyOrder, BlocksThatRunAtOnceMayWaitForEachOther) {
  // 1024 threads: two blocks for each of two multiprocessors.
  EXPECT_EQ((error_of_passing_on<Waits::for_later>(4, 1024)), "");
  EXPECT_EQ((error_of_passing_on<Waits::for_later>(64, 32)), "");
  EXPECT_EQ((error_of_passing_on<Waits::for_earlier>(100, 1024)), "");
}

TEST_P(AnyOrder, ABlockThatWaitsForOneThatCannotBegin) {
  const std::string error = error_of_passing_on<Waits::for_later>(5, 1024);
  EXPECT_TRUE(
      contains(error, "deadlock: 1 thread waits at a loop around host_global_faults_test.cpp:" +
                          std::to_string(kWaitLine)));
  EXPECT_TRUE(contains(error,
                       ", 1023 have ended; and 3 other blocks wait; others begin when one of "
                       "these has ended: 4 blocks fill 2 SMs"));
  EXPECT_EQ((error_of_passing_on<Waits::for_later>(4, 1024)), "") << "it works after an error";
}

TEST_P(AnyOrder, BlocksThatAllWait) {
  const std::string error = error_of_passing_on<Waits::in_a_ring>(3, 64);
  EXPECT_TRUE(contains(error, "deadlock: 1 thread waits at a loop around "));
  EXPECT_TRUE(contains(error, "and 2 other blocks wait"));
  EXPECT_FALSE(contains(error, "others begin"));
}

/// Block 1 can't go on, and block 0 waits for it.
__global__ void wait_for_one_that_hangs(const unsigned* flag) {
  while (blockIdx.x == 0 && threadIdx.x == 0 && *static_cast<const volatile unsigned*>(flag) == 0)
    continue;
  if (threadIdx.x == 32) __syncwarp(3u);
  __syncthreads();
}

TEST_P(AnyOrder, TheBlockThatHangsIsNamed) {
  Array<unsigned> flag(1);
  const std::string error =
      error_of([&] { launch(wait_for_one_that_hangs, 2, 64, 0, nullptr, flag); });
  EXPECT_TRUE(contains(error, "block (1,0,0) thread (0,0,0): deadlock: "));
  EXPECT_TRUE(contains(error, "63 threads wait at __syncthreads"));
}

TEST_P(AnyOrder, BlocksThatWaitStillNeedFences) {
  EXPECT_TRUE(contains((error_of_passing_on<Waits::for_later, false>(4, 64)),
                       "race in global memory: the load"));
  EXPECT_TRUE(contains((error_of_passing_on<Waits::for_earlier, false>(4, 64)),
                       "race in global memory: the load"));
}

/// Blocks of 64 threads meet twice, as a cooperative launch's do; each has numbers in shared memory
/// and in its threads' registers, and what it writes between them others read behind.
__global__ void meet_twice(unsigned* arrived, unsigned* in, unsigned* out) {
  __shared__ unsigned fixed[64];
  unsigned* const dynamic = ladder::dynamic_shared<unsigned>();
  const unsigned t = threadIdx.x, own = blockIdx.x * 64 + t;
  fixed[t] = own;
  dynamic[t] = 2 * own;
  in[own] = 3 * own;
  const auto meet = [&](unsigned all) {
    __threadfence();
    __syncthreads();
    if (t == 0) {
      atomicAdd(arrived, 1u);
      while (atomicAdd(arrived, 0u) < all) continue;
    }
    __syncthreads();
    __threadfence();
  };
  meet(gridDim.x);
  const unsigned other = (own + 64) % (gridDim.x * 64);
  const unsigned value = in[other];
  meet(2 * gridDim.x);
  in[own] = 0;
  out[own] = fixed[t ^ 1] + dynamic[t ^ 1] + value;
}

TEST_P(AnyOrder, ABlockThatWaitsKeepsItsSharedMemory) {
  constexpr unsigned kBlocks = 7;
  Array<unsigned> arrived(1), in(kBlocks * 64), out(kBlocks * 64);
  launch(meet_twice, kBlocks, 64, 64 * sizeof(unsigned), nullptr, arrived, in, out);
  for (unsigned i = 0; i < kBlocks * 64; ++i) {
    ASSERT_EQ(out[i], 3 * (i ^ 1) + 3 * ((i + 64) % (kBlocks * 64))) << i;
  }
}

/// What is left out of a message.
enum class Drops { nothing, barrier, release, acquire, scope };

/// Block 0 has numbers for block 1.
template <Drops kDrops>
__global__ void send(unsigned* numbers, unsigned* flag, unsigned* out) {
  constexpr Scope kScope = kDrops == Drops::scope ? Scope::block : Scope::gpu;
  const unsigned t = threadIdx.x;
  auto* const plain = static_cast<volatile unsigned*>(flag);
  if (blockIdx.x == 0) {
    numbers[t] = t + 1;
    if (kDrops != Drops::barrier) __syncthreads();
    if (t == 0 && kDrops == Drops::release) *plain = 1;
    if (t == 0 && kDrops != Drops::release) store_release<kScope>(flag, 1);
  } else {
    while (t == 0 && (kDrops == Drops::acquire ? *plain : load_acquire<kScope>(flag)) == 0)
      continue;
    __syncthreads();
    out[t] = numbers[t];
  }
}

template <Drops kDrops>
std::string error_of_sending() {
  Array<unsigned> numbers(64), flag(1), out(64);
  return error_of([&] { launch(send<kDrops>, 2, 64, 0, nullptr, numbers, flag, out); });
}

TEST_P(AnyOrder, AMessageBetweenBlocksIsReleasedAndAcquired) {
  EXPECT_EQ(error_of_sending<Drops::nothing>(), "");
  const auto expect_race = [](const std::string& error) {
    EXPECT_TRUE(contains(error, "race in global memory: the load"));
    EXPECT_TRUE(contains(error, "are in no order: between blocks"));
  };
  expect_race(error_of_sending<Drops::release>());
  expect_race(error_of_sending<Drops::acquire>());
  expect_race(error_of_sending<Drops::scope>());
}

TEST(Message, NeedsABarrierBeforeItsRelease) {  // ascending: thread 0 is the first
  EXPECT_TRUE(contains(error_of_sending<Drops::barrier>(), "are in no order"));
}

/// Thread 0 waits for thread 63, of another warp.
__global__ void wait_in_a_block(unsigned* flag, unsigned* out, unsigned looks) {
  if (threadIdx.x == 0) {
    while (*static_cast<volatile unsigned*>(flag) == 0) continue;
  }
  for (unsigned i = 0; threadIdx.x == 32 && i < looks; ++i) {  // a loop that ends
    out[32] += *static_cast<volatile unsigned*>(flag);
  }
  if (threadIdx.x == 63) *static_cast<volatile unsigned*>(flag) = 1;
  if (threadIdx.x != 32) out[threadIdx.x] = 1;
}

TEST_P(AnyOrder, AThreadMayWaitForAnotherInALoop) {
  Array<unsigned> flag(1), out(64);
  run_block(64, wait_in_a_block, flag, out, 5000u);
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0u) - out[32], 63u);
}

/// A thread that looks often and then goes on waits for nobody.
__global__ void look(const unsigned* number, unsigned* out, unsigned looks) {
  unsigned sum = 0;
  for (unsigned i = 0; i < looks; ++i) sum += *static_cast<const volatile unsigned*>(number);
  out[threadIdx.x] = sum;
}

TEST_P(AnyOrder, AThreadMayLookOften) {
  Array<unsigned> number(1), out(32);
  number[0] = 2;
  run_block(32, look, number, out, 10'000u);
  EXPECT_EQ(out[31], 20'000u);
}

// --- Launches ------------------------------------------------------------------------------------

constexpr int kBound = 96;
__global__ void __launch_bounds__(kBound) bound(float* out) { out[threadIdx.x] = 1.0f; }
template <int kThreads>
__global__ void __launch_bounds__(kThreads, 2) bound_template(float* out) {
  out[threadIdx.x] = 1.0f;
}
__global__ void unbound(float* out) { out[threadIdx.x] = 1.0f; }

TEST_P(AnyOrder, ABlockIsNoLargerThanItsLaunchBounds) {
#if defined(__clang__) || !defined(__x86_64__)
  GTEST_SKIP() << "the compiler does not tell";
#endif
  Array<float> out(1024);
  const auto expect_bound = [&](auto* kernel, unsigned most) {
    EXPECT_EQ(error_of([&] { run_block(most, kernel, out); }), "");
    if (most == 1024) return;
    const std::string text = error_of([&] {
      launch(kernel, 1, {most / 2 + 1, 2}, 0, nullptr, out);
    });
    EXPECT_EQ(text, "a block of " + std::to_string(most / 2 * 2 + 2) +
                        " threads is larger than the kernel's __launch_bounds__(" +
                        std::to_string(most) + ")");
  };
  expect_bound(bound, 96);
  expect_bound(bound_template<1>, 1);
  expect_bound(bound_template<64>, 64);
  expect_bound(bound_template<1024>, 1024);
  EXPECT_EQ(error_of([&] { run_block(1024, unbound, out); }), "");
}

TEST(Launches, GoIntoTheStreamThatLaunchIsGiven) {
  Array<float> out(32);
  int other = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&other);
  const auto error = [&](cudaStream_t to) {
    return error_of([&] { launch(unbound, 1, 32, 0, to, out); });
  };
  EXPECT_EQ(error(nullptr), "");
  const ladder::host::LaunchStream given(stream);
  EXPECT_EQ(error(stream), "");
  EXPECT_TRUE(contains(error(nullptr), "a launch into the null stream"));
  EXPECT_TRUE(
      contains(error_of([&] { ladder::fill_async(out, 0, 4, nullptr); }), "the null stream"));
  EXPECT_TRUE(
      contains(error(reinterpret_cast<cudaStream_t>(&out)), "a launch into another stream"));
}

/// Blocks that are not chosen do nothing.
__global__ void note_block(unsigned* out) { out[blockIdx.x + gridDim.x * blockIdx.y] = 1; }

TEST(Launches, RunTheChosenBlocks) {
  Array<unsigned> out(12);
  ladder::host::set_blocks([](dim3 grid) {
    EXPECT_EQ(grid.x, 4u);
    return std::vector<uint3>{{3, 2, 0}, {0, 1, 0}};
  });
  launch(note_block, dim3(4, 3), 1, 0, nullptr, out);
  ladder::host::set_blocks(nullptr);
  for (unsigned i = 0; i < 12; ++i) EXPECT_EQ(out[i], i == 11 || i == 4) << i;
}

}  // namespace

#endif
