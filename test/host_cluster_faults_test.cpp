// What a GPU leaves undefined of clusters, and the host executor finds: each kernel here has one
// mistake, and its message names it, under orders of the threads in which asynchronous work is late
// and in which it is early. This file is compiled as kernels are.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu.hpp"

#include "arrays.hpp"
#include "device/ptx/cluster.hpp"
#include "device/ptx/tma.hpp"
#include "device/sm_count.hpp"
#include "device/tensor_map.hpp"
#include "error_of.hpp"
#include "host_executor/counting.hpp"

#if !defined(__SANITIZE_ADDRESS__)  // under which there are no clusters

namespace {

using ladder::launch;
using ladder::test::contains;
using ladder::test::error_of;
using namespace ladder::ptx;

class Clusters : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Order, Clusters, LADDER_ORDERS);

void expect_error(const std::string& error, const char* text) {
  EXPECT_TRUE(contains(error, text));
}

constexpr int kThreads = 64;

enum class Mistake {
  none,
  none_relaxed,  // at the end, where nothing is handed over
  // At the cluster's barrier
  no_sync_between,
  relaxed_arrival,
  block_sync_between,
  no_sync_after,
  load_after_arrival,
  ends_early,
  no_arrival,
  two_arrivals,
  one_waits,
  a_rank_too_many,
  beyond_shared,
  misaligned,
  never_written,
  no_proxy_fence,
  // Of mbarriers
  no_init,
  no_init_fence,
  one_more_arrival,
  one_arrival_less,
  no_release,
  no_wait,
  other_mbarrier,
  never_waited,
  overwritten,
};

// --- Loads ---------------------------------------------------------------------------------------

/// Rows of values that the next block reads. The second is in dynamic shared memory.
template <Mistake kMistake>
__global__ void __launch_bounds__(kThreads) __cluster_dims__(4) pass_values(float* out) {
  __shared__ __align__(16) float4 values[kThreads];
  float4* const more = ladder::dynamic_shared<float4>();
  const unsigned rank = cluster_rank(), next = (rank + 1) % 4, t = threadIdx.x;
  if (kMistake == Mistake::ends_early && rank == 1) return;
  if (kMistake != Mistake::never_written || t > 0) values[t] = {};
  more[t] = {};
  cluster_sync();
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    const float x = static_cast<float>(rank * 1000 + t * 10 + round);
    if (kMistake != Mistake::never_written || t > 0) values[t] = make_float4(x, 0, 0, 0);
    more[t] = make_float4(2 * x, 0, 0, 0);
    if (kMistake == Mistake::no_arrival) cluster_wait();
    if (kMistake == Mistake::two_arrivals) cluster_arrive();
    if (kMistake == Mistake::relaxed_arrival) {
      cluster_arrive_relaxed();
      cluster_wait();
    } else if (kMistake == Mistake::block_sync_between) {
      __syncthreads();
    } else if (kMistake != Mistake::no_sync_between) {
      cluster_arrive();
      if (kMistake != Mistake::one_waits || t == 0) cluster_wait();
    }
    const unsigned of = (t + 1) % kThreads;
    const unsigned offset = kMistake == Mistake::beyond_shared ? 1 << 21
                            : kMistake == Mistake::misaligned  ? 8
                                                               : 0;
    const unsigned from = kMistake == Mistake::a_rank_too_many ? next + 4 : next;
    if (kMistake == Mistake::load_after_arrival) cluster_arrive();
    sum += cluster_load(cluster_address(&values[of], from) + offset).x;
    sum += cluster_load(cluster_address(&more[of], next)).x;
    if (kMistake == Mistake::load_after_arrival) {
      cluster_wait();
    } else if (kMistake == Mistake::none_relaxed) {
      cluster_arrive_relaxed();
      cluster_wait();
    } else if (kMistake != Mistake::no_sync_after) {
      cluster_sync();
    }
  }
  out[blockIdx.x * kThreads + t] = sum;
}

template <Mistake kMistake>
std::string error_of_values() {
  constexpr int kBlocks = 8;
  Array<float> out(kBlocks * kThreads);
  const std::string error = error_of([&] {
    launch(pass_values<kMistake>, kBlocks, kThreads, kThreads * sizeof(float4), nullptr, out);
  });
  const auto sums = out.read();
  for (int i = 0; error.empty() && i < kBlocks * kThreads; ++i) {
    const int rank = (i / kThreads + 1) % 4, t = (i + 1) % kThreads;
    EXPECT_EQ(sums[i], 3 * 3 * (rank * 1000 + t * 10) + 3 * (0 + 1 + 2)) << "thread " << i;
  }
  return error;
}

TEST_P(Clusters, LoadsWithoutAMistakeAreRight) {
  EXPECT_EQ(error_of_values<Mistake::none>(), "");
  EXPECT_EQ(error_of_values<Mistake::none_relaxed>(), "");
}
TEST_P(Clusters, ValuesThatNeedNotBeSeen) {
  expect_error(error_of_values<Mistake::no_sync_between>(), "have no cluster_sync between them");
  expect_error(error_of_values<Mistake::relaxed_arrival>(), "have no cluster_sync between them");
  expect_error(error_of_values<Mistake::block_sync_between>(), "have no cluster_sync between them");
}
TEST_P(Clusters, AThreadThatDoesNotWait) {
  expect_error(error_of_values<Mistake::one_waits>(), "cluster_sync");
}
TEST_P(Clusters, ValuesOverwrittenWhileTheyAreRead) {
  expect_error(error_of_values<Mistake::no_sync_after>(), "cluster_sync");
  expect_error(error_of_values<Mistake::load_after_arrival>(), "of the block of rank");
}
TEST_P(Clusters, ABlockThatHasEnded) {
  expect_error(error_of_values<Mistake::ends_early>(),
               "cluster_load at host_cluster_faults_test.cpp:");
  expect_error(error_of_values<Mistake::ends_early>(),
               "DSMEM of the block of rank 1, which has ended");
}
TEST_P(Clusters, WaitsAndArrivalsByTurns) {
  expect_error(error_of_values<Mistake::no_arrival>(),
               "this thread has not arrived at the cluster's barrier");
  expect_error(error_of_values<Mistake::two_arrivals>(),
               "this thread has arrived at the cluster's barrier, and not waited");
}
TEST_P(Clusters, AddressesOutsideOfTheCluster) {
  expect_error(error_of_values<Mistake::a_rank_too_many>(), ": the cluster has 4 blocks");
  expect_error(error_of_values<Mistake::beyond_shared>(), "is outside shared memory");
  expect_error(error_of_values<Mistake::misaligned>(), "misaligned");
}
TEST_P(Clusters, ValuesThatNobodyHasWritten) {
  expect_error(error_of_values<Mistake::never_written>(),
               "finds shared memory that no thread of the block has written");
}

/// Only one barrier is missing, the first.
__global__ void __cluster_dims__(2) load_at_once(float* out) {
  __shared__ __align__(16) float4 value;
  value = make_float4(1, 2, 3, 4);
  out[blockIdx.x] = cluster_load(cluster_address(&value, cluster_rank() ^ 1)).y;
  cluster_sync();
}
TEST_P(Clusters, ABlockThatHasNotStarted) {
  Array<float> out(2);
  expect_error(error_of([&] { launch(load_at_once, 2, 1, 0, nullptr, out); }),
               "which need not have started: no cluster_sync comes before");
}

/// Only one barrier is missing, the last.
__global__ void __cluster_dims__(2) load_and_end(float* out) {
  __shared__ __align__(16) float4 value;
  value = make_float4(1, 2, 3, 4);
  cluster_sync();
  if (cluster_rank() == 1) out[0] = cluster_load(cluster_address(&value, 0)).y;
}
TEST_P(Clusters, ABlockThatEndsWhileItIsRead) {
  Array<float> out(2);
  const std::string error = error_of([&] { launch(load_and_end, 2, 1, 0, nullptr, out); });
  EXPECT_TRUE(error.find("which has ended") != std::string::npos ||
              error.find("the block ends while the block of rank 1 may still read") !=
                  std::string::npos)
      << error;
}

// --- Stores, atomic operations and copies --------------------------------------------------------

/// Block 0 writes to block 1, which reads it; then it copies a row to block 1.
template <Mistake kMistake>
__global__ void __cluster_dims__(2) write_there(float* out) {
  __shared__ __align__(16) float4 value, row[2], copy[2];
  __shared__ unsigned sum;
  __shared__ Mbarrier received;
  const unsigned rank = cluster_rank();
  if (threadIdx.x > 0) return;
  sum = 0;
  value = row[0] = row[1] = {};
  mbarrier_init(&received, 1);
  fence_mbarrier_init();
  if (kMistake != Mistake::no_proxy_fence) fence_proxy_async();
  cluster_sync();
  if (rank == 0) cluster_store(cluster_address(&value, 1), make_float4(1, 2, 3, 4));
  cluster_atomic_add(cluster_address(&sum, 1), rank + 1);
  if (kMistake == Mistake::relaxed_arrival) {
    cluster_arrive_relaxed();
    cluster_wait();
  } else if (kMistake != Mistake::no_sync_between) {
    cluster_sync();
  }
  if (rank == 1) {
    out[0] = value.x + value.y;
    out[1] = static_cast<float>(sum);
    mbarrier_arrive_expect_tx(&received, sizeof copy);
    mbarrier_wait(&received, 0);
    out[2] = copy[1].x;
  } else {
    cluster_copy(cluster_address(copy, 1), row, sizeof copy, cluster_address(&received, 1));
    if (kMistake == Mistake::overwritten) row[0] = {};
    if (kMistake == Mistake::ends_early) return;
  }
  cluster_sync();
}

template <Mistake kMistake>
std::string error_of_written() {
  Array<float> out(3);
  const std::string error = error_of([&] { launch(write_there<kMistake>, 2, 1, 0, nullptr, out); });
  if (!error.empty()) return error;
  EXPECT_EQ(out.read(), (std::vector<float>{3, 3, 0}));
  return "";
}
TEST_P(Clusters, WritesWithoutAMistakeAreRight) {
  EXPECT_EQ(error_of_written<Mistake::none>(), "");
}
TEST_P(Clusters, WhatIsWrittenInAnotherBlockNeedNotBeSeen) {
  expect_error(error_of_written<Mistake::no_sync_between>(), "have no cluster_sync between them");
  expect_error(error_of_written<Mistake::relaxed_arrival>(), "have no cluster_sync between them");
}
TEST_P(Clusters, ACopyOfWhatTheCopyEngineDoesNotSee) {
  expect_error(error_of_written<Mistake::no_proxy_fence>(), "without fence_proxy_async");
}
TEST_P(Clusters, ARowOverwrittenWhileItIsCopied) {
  if (ladder::host::is_eager()) return;  // then it has been read
  expect_error(error_of_written<Mistake::overwritten>(), "overwritten while it is read");
  expect_error(error_of_written<Mistake::ends_early>(), "may still read its shared memory");
}

// --- Deadlocks -----------------------------------------------------------------------------------

__global__ void __cluster_dims__(2) wait_for_all() {
  if (cluster_rank() == 1 && threadIdx.x < 3) {
    __syncthreads();
    return;
  }
  cluster_sync();
  __shared__ Mbarrier never;
  if (threadIdx.x == 0) mbarrier_init(&never, 1);
  if (threadIdx.x == 0) mbarrier_wait(&never, 0);
}
TEST_P(Clusters, DeadlocksNameRanks) {
  const std::string error = error_of([&] { launch(wait_for_all, 2, 32, 0, nullptr); });
  expect_error(
      error,
      "block (0,0,0) thread (0,0,0): deadlock: rank 0: 32 threads wait at cluster_sync: 61 "
      "of the cluster's 64 threads have arrived (host_cluster_faults_test.cpp:");
  expect_error(error, ", 0 have ended; rank 1: ");
  expect_error(error, "3 threads wait at __syncthreads (");
  expect_error(error, "29 threads wait at cluster_sync: 61 of");
}

/// Half of the lanes load from the block of rank 0, half from that of rank 1, `pitch` values apart.
__global__ void __cluster_dims__(2) load_from_both(int pitch) {
  __shared__ __align__(16) float4 values[256];
  for (int i = threadIdx.x; i < 256; i += 32) values[i] = {};
  cluster_sync();
  cluster_load(cluster_address(&values[threadIdx.x * pitch], threadIdx.x / 16));
  cluster_sync();
}
TEST_P(Clusters, LoadsAreCountedByTheBanksOfEachBlock) {
  for (const auto& [pitch, wavefronts] : {std::pair(1, 2u), {8, 16u}}) {
    const ladder::Counters c =
        ladder::host::count([&] { launch(load_from_both, 2, 32, 0, nullptr, pitch); });
    const ladder::Requests own{
        .units = 2 * wavefronts, .ideal = 2 * 2, .lanes = 2 * 16, .bytes = 2 * 16 * 16};
    ladder::Requests all = own;
    all += own;
    all.requests = 2;
    EXPECT_EQ(c.own_cluster_load, own) << pitch;
    EXPECT_EQ(c.cluster_load, all) << pitch;
    EXPECT_EQ(c.shared_load, ladder::Requests{}) << pitch;
    ASSERT_EQ(c.lines.size(), 2u);
    EXPECT_EQ(c.lines[1].access, ladder::Access::cluster_load);
  }
}

// --- Mbarriers and asynchronous stores -----------------------------------------------------------

/// Both blocks send each other values, round after round, into one place: each tells the other when
/// it may do so again.
template <Mistake kMistake>
__global__ void __launch_bounds__(kThreads) __cluster_dims__(2) send_values(float* out) {
  __shared__ __align__(16) float4 inbox[kThreads];
  __shared__ Mbarrier received, empty;
  const unsigned rank = cluster_rank(), other = rank ^ 1, t = threadIdx.x;
  if (t == 0) {
    if (kMistake != Mistake::no_init) mbarrier_init(&received, 1);
    mbarrier_init(&empty, kThreads);
    if (kMistake != Mistake::no_init_fence) fence_mbarrier_init();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  if (kMistake == Mistake::no_init_fence) __syncthreads();
  float sum = 0;
  for (unsigned round = 0; round < 4; ++round) {
    if (t == 0 && kMistake != Mistake::no_init) {
      mbarrier_arrive_expect_tx(&received, sizeof inbox);
    }
    if (round > 0 && kMistake != Mistake::no_wait) mbarrier_wait(&empty, (round - 1) % 2);
    const float x = static_cast<float>(rank * 1000 + t + round);
    const unsigned told =
        cluster_address(&received, kMistake == Mistake::other_mbarrier ? rank : other);
    cluster_store_async(cluster_address(&inbox[t], other), make_float4(x, x, x, x), told);
    if (kMistake == Mistake::never_waited && round == 3) return;
    if (kMistake == Mistake::overwritten) inbox[t] = make_float4(0, 0, 0, 0);
    mbarrier_wait_cluster(&received, round % 2);
    if (kMistake == Mistake::no_release) mbarrier_arrive_remote(cluster_address(&empty, other));
    sum += inbox[(t + 1) % kThreads].x;
    if (kMistake == Mistake::no_release) continue;
    if (kMistake != Mistake::one_arrival_less || t > 0) {
      mbarrier_arrive_remote(cluster_address(&empty, other));
    }
    if (kMistake == Mistake::one_more_arrival && t == 5) {
      mbarrier_arrive_remote(cluster_address(&empty, other));
    }
  }
  cluster_sync();
  out[blockIdx.x * kThreads + t] = sum;
}

template <Mistake kMistake>
std::string error_of_sent() {
  Array<float> out(2 * kThreads);
  const std::string error =
      error_of([&] { launch(send_values<kMistake>, 2, kThreads, 0, nullptr, out); });
  const auto sums = out.read();
  for (int i = 0; error.empty() && i < 2 * kThreads; ++i) {
    const int rank = 1 - i / kThreads, t = (i + 1) % kThreads;
    EXPECT_EQ(sums[i], 4 * (rank * 1000 + t) + 6) << "thread " << i;
  }
  return error;
}

TEST_P(Clusters, StoresWithoutAMistakeAreRight) { EXPECT_EQ(error_of_sent<Mistake::none>(), ""); }
TEST_P(Clusters, AsynchronousStoresAreCounted) {
  const ladder::Counters c = ladder::host::count([] { error_of_sent<Mistake::none>(); });
  constexpr unsigned kRequests = 4 * 2 * kThreads / 32;  // of each round, block and warp
  EXPECT_EQ(c.cluster_store, (ladder::Requests{.requests = kRequests,
                                               .units = 4 * kRequests,
                                               .ideal = 4 * kRequests,
                                               .lanes = 32 * kRequests,
                                               .bytes = 16 * 32 * kRequests}));
  EXPECT_EQ(c.mbarrier_phases, 4 * 2 * 2u) << "of each round, block and mbarrier";
}
TEST_P(Clusters, AnMbarrierThatNobodyMade) {
  const std::string error = error_of_sent<Mistake::no_init>();
  expect_error(error, "cluster_store_async at host_cluster_faults_test.cpp:");
  expect_error(error, "has no mbarrier there");
}
TEST_P(Clusters, AnMbarrierThatOtherBlocksDoNotSee) {
  expect_error(error_of_sent<Mistake::no_init_fence>(), "have no cluster_sync between them");
}
TEST_P(Clusters, MoreArrivalsThanThreads) {
  EXPECT_NE(error_of_sent<Mistake::one_more_arrival>(), "");
}
TEST_P(Clusters, AnArrivalThatIsMissing) {
  expect_error(error_of_sent<Mistake::one_arrival_less>(), "1 of 64 arrivals missing");
}
TEST_P(Clusters, ValuesSentTooSoon) {
  EXPECT_NE(error_of_sent<Mistake::no_wait>(), "");
  EXPECT_NE(error_of_sent<Mistake::no_release>(), "");
}
TEST_P(Clusters, AnMbarrierOfAnotherBlockThanTheValues) {
  expect_error(error_of_sent<Mistake::other_mbarrier>(), ", and to an mbarrier of rank ");
}
TEST_P(Clusters, ValuesThatNobodyWaitsFor) {
  EXPECT_NE(error_of_sent<Mistake::never_waited>(), "");
}
TEST_P(Clusters, APlaceThatSomethingIsSentTo) {
  EXPECT_NE(error_of_sent<Mistake::overwritten>(), "");
}

__global__ void __cluster_dims__(2) arrive_twice() {
  __shared__ Mbarrier told;
  if (threadIdx.x == 0) {
    mbarrier_init(&told, 2);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&told, 16);
  }
  cluster_sync();
  const unsigned there = cluster_address(&told, cluster_rank() ^ 1);
  mbarrier_arrive_remote(there);
  mbarrier_arrive_remote(there);
  cluster_sync();
}
TEST_P(Clusters, RemoteArrivalsTooMany) {
  const std::string error = error_of([&] { launch(arrive_twice, 2, 1, 0, nullptr); });
  expect_error(error, "mbarrier_arrive_remote at host_cluster_faults_test.cpp:");
  expect_error(error, ": all 2 threads of the phase have arrived, and it has not ended");
}

/// Block 0 reads what block 1 has written, and tells it to go on; that overwrites the value.
template <Mistake kMistake>
__global__ void __cluster_dims__(2) read_and_tell(float* out) {
  __shared__ __align__(16) float4 value;
  __shared__ Mbarrier told;
  const unsigned other = cluster_rank() ^ 1;
  value = {};
  mbarrier_init(&told, 1);
  cluster_sync();
  if (cluster_rank() == 1) {
    value = make_float4(1, 2, 3, 4);
    mbarrier_arrive_remote(cluster_address(&told, other));
    if (kMistake != Mistake::relaxed_arrival) {
      cluster_sync();
      mbarrier_wait(&told, 0);
      value = make_float4(5, 6, 7, 8);
    }
  } else {
    mbarrier_wait(&told, 0);
    if (kMistake != Mistake::relaxed_arrival) cluster_sync();
    out[0] = cluster_load(cluster_address(&value, other)).y;
    mbarrier_arrive_remote(cluster_address(&told, other));
  }
  cluster_sync();
}
TEST_P(Clusters, ARemoteArrivalReleasesWhatHasBeenReadAlone) {
  Array<float> out(1);
  EXPECT_EQ(error_of([&] { launch(read_and_tell<Mistake::none>, 2, 1, 0, nullptr, out); }), "");
  EXPECT_EQ(out.read()[0], 2);
  expect_error(
      error_of([&] { launch(read_and_tell<Mistake::relaxed_arrival>, 2, 1, 0, nullptr, out); }),
      "have no cluster_sync between them");
}

/// Each block pushes a value to both, again and again: what comes tells that a stage is free.
__global__ void __cluster_dims__(2) push_to_all(float* out) {
  __shared__ __align__(16) float4 values[2][2];
  __shared__ Mbarrier received[2];
  const unsigned rank = cluster_rank(), t = threadIdx.x;
  if (t == 0) {
    for (Mbarrier& each : received) {
      mbarrier_init(&each, 1);
      mbarrier_arrive_expect_tx(&each, sizeof values[0]);
    }
    fence_mbarrier_init();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  float sum = 0;
  for (unsigned round = 0; round < 6; ++round) {
    const unsigned stage = round % 2;
    const float x = static_cast<float>(rank + round);
    if (t < 2) {
      cluster_store_async(cluster_address(&values[stage][rank], t), make_float4(x, x, x, x),
                          cluster_address(&received[stage], t));
    }
    mbarrier_wait_cluster(&received[stage], round / 2 % 2);
    if (t == 0 && round < 4) mbarrier_arrive_expect_tx(&received[stage], sizeof values[0]);
    sum += values[stage][0].x + values[stage][1].x;
    __syncthreads();
  }
  out[blockIdx.x * kThreads + t] = sum;
}
TEST_P(Clusters, WhatIsPushedTellsThatAStageIsFree) {
  Array<float> out(2 * kThreads);
  EXPECT_EQ(error_of([&] { launch(push_to_all, 2, kThreads, 0, nullptr, out); }), "");
  EXPECT_EQ(out.read(), std::vector<float>(2 * kThreads, 2 * 15 + 6));
}

__global__ void __cluster_dims__(2) push_and_end() {
  __shared__ __align__(16) float4 value;
  __shared__ Mbarrier received;
  mbarrier_init(&received, 1);
  mbarrier_arrive_expect_tx(&received, sizeof value);
  cluster_sync();
  if (cluster_rank() == 0) {
    cluster_store_async(cluster_address(&value, 1), {}, cluster_address(&received, 1));
  }
  cluster_sync();
}
TEST_P(Clusters, ABlockThatEndsBeforeSomethingLands) {
  if (ladder::host::is_eager()) return;  // then it has landed
  expect_error(error_of([&] { launch(push_and_end, 2, 1, 0, nullptr); }),
               "the block ends while the st.async at host_cluster_faults_test.cpp:");
}

// --- Multicast -----------------------------------------------------------------------------------

constexpr int kRows = 8, kCols = 32;

/// Block 0 loads a box for both, twice.
template <Mistake kMistake>
__global__ void __cluster_dims__(2)
    share_twice(const __grid_constant__ CUtensorMap from, float* shown) {
  __shared__ __align__(1024) float box[kRows * kCols];
  __shared__ Mbarrier landed, empty;
  const unsigned rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&landed, 1);
    mbarrier_init(&empty, 2 * 32);
    if (kMistake != Mistake::no_init_fence) fence_mbarrier_init();
  }
  cluster_sync();
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&landed, sizeof box);
    if (kMistake == Mistake::ends_early && rank == 1 && round == 1) return;
    if (threadIdx.x == 0 && rank == 0) {
      if (round > 0 && kMistake != Mistake::no_wait) mbarrier_wait(&empty, (round - 1) % 2);
      if (kMistake == Mistake::no_init_fence) {
        tensor_load_multicast(box, &from, 0, round * kRows, &landed, 2);
      } else {
        tensor_load_multicast(box, &from, 0, round * kRows, &landed, 3);
      }
    }
    if (kMistake != Mistake::never_waited) mbarrier_wait(&landed, round % 2);
    float sum = 0;
    for (int row = 0; row < kRows; ++row) sum += box[row * kCols + threadIdx.x];
    shown[(round * 2 + rank) * kCols + threadIdx.x] = sum;
    mbarrier_arrive_remote(cluster_address(&empty, 0));
  }
  cluster_sync();
}

template <Mistake kMistake>
std::string error_of_shared() {
  Array<float> from(std::vector<float>(2 * kRows * kCols, 1)), shown(2 * 2 * kCols);
  const CUtensorMap map =
      ladder::tensor_map(ladder::DType::f32, from,
                         {{.size = kCols, .stride = 4, .box = kCols},
                          {.size = 2 * kRows, .stride = 4 * kCols, .box = kRows}},
                         CU_TENSOR_MAP_SWIZZLE_NONE);
  const std::string error =
      error_of([&] { launch(share_twice<kMistake>, 2, 32, 0, nullptr, map, shown); });
  const auto sums = shown.read();
  for (std::size_t i = 0; error.empty() && i < sums.size(); ++i) EXPECT_EQ(sums[i], kRows);
  return error;
}

TEST_P(Clusters, MulticastWithoutAMistakeIsRight) {
  EXPECT_EQ(error_of_shared<Mistake::none>(), "");
}
TEST_P(Clusters, AnMbarrierThatTheCopyEngineDoesNotSee) {
  expect_error(error_of_shared<Mistake::no_init_fence>(), "without fence_proxy_async");
}
TEST_P(Clusters, ABoxThatIsOverwrittenWhileItIsRead) {
  const std::string error = error_of_shared<Mistake::no_wait>();
  EXPECT_NE(error, "");
}
TEST_P(Clusters, ABoxThatIsNotWaitedFor) {
  EXPECT_NE(error_of_shared<Mistake::never_waited>(), "");
}

// --- Launches ------------------------------------------------------------------------------------

__global__ void __launch_bounds__(32) __cluster_dims__(4, 1, 1) note_blocks(int* blocks) {
  if (threadIdx.x == 0) blocks[blockIdx.x] = 1 + static_cast<int>(cluster_rank());
}
TEST_P(Clusters, GridsAreMultiplesOfTheirSize) {
  Array<int> blocks(12);
  expect_error(error_of([&] { launch(note_blocks, 10, 32, 0, nullptr, blocks); }),
               "a grid of (10,1,1) blocks is none of clusters of 4");
  EXPECT_EQ(error_of([&] { launch(note_blocks, 12, 32, 0, nullptr, blocks); }), "");
  EXPECT_EQ(blocks.read(), (std::vector{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
}
TEST_P(Clusters, AChosenBlockBringsItsCluster) {
  Array<int> blocks(12);
  ladder::host::set_blocks([](dim3) {
    return std::vector<uint3>{{9, 0, 0}, {2, 0, 0}, {11, 0, 0}};
  });
  const std::string error = error_of([&] { launch(note_blocks, 12, 32, 0, nullptr, blocks); });
  ladder::host::set_blocks(nullptr);
  EXPECT_EQ(error, "");
  EXPECT_EQ(blocks.read(), (std::vector{1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4}));
}

__global__ void __cluster_dims__(2) pass_on(unsigned* flags, bool up) {
  const unsigned own = blockIdx.x / 2, last = gridDim.x / 2 - 1;
  if (threadIdx.x == 0 && own != (up ? 0 : last)) {
    while (static_cast<volatile unsigned*>(flags)[up ? own - 1 : own + 1] == 0) continue;
  }
  if (threadIdx.x == 0 && cluster_rank() == 1) static_cast<volatile unsigned*>(flags)[own] = 1;
}
TEST_P(Clusters, WaitForEarlierOnesOnly) {
  Array<unsigned> flags(5);
  EXPECT_EQ(error_of([&] { launch(pass_on, 10, 32, 0, nullptr, flags, true); }), "");
  Array<unsigned> others(5);
  const std::string error = error_of([&] { launch(pass_on, 10, 32, 0, nullptr, others, false); });
  expect_error(error, "deadlock: rank 0: 1 thread waits at a loop around host_cluster_faults_test");
  expect_error(error, "; rank 1: 1 thread waits at a loop around ");
  expect_error(error, "; the clusters of a grid run one after the other here");
}
TEST_P(Clusters, AsManyAsFitTheMultiprocessors) {
  EXPECT_EQ(ladder::blocks_at_once(note_blocks, 4, 32, 0), 4);
  EXPECT_EQ(ladder::blocks_at_once(note_blocks, 1, 32, 0), 2);
  EXPECT_EQ(ladder::blocks_at_once(note_blocks, 2, 32, 113 * 1024), 4);
  EXPECT_EQ(ladder::blocks_at_once(note_blocks, 2, 32, 113 * 1024 + 1), 2);
}

__global__ void trap(int which) {
  if (static_cast<int>(threadIdx.x) == which) __trap();
}
TEST_P(Clusters, ATrapIsAnErrorOfItsThread) {
  expect_error(error_of([&] { launch(trap, 1, 32, 0, nullptr, 7); }),
               "block (0,0,0) thread (7,0,0): __trap");
}

}  // namespace

#endif
