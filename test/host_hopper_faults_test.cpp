// What a GPU leaves undefined of Hopper's asynchronous instructions, and the host executor finds:
// each kernel here has one mistake, and its message names it, under orders of the threads in which
// asynchronous work is late and in which it is early. This file is compiled as kernels are.
#if !defined(__SANITIZE_ADDRESS__)  // whose instrumentation takes the place of the checks'

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gpu.hpp"

#include "arrays.hpp"
#include "device/ptx/ldmatrix.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/ptx/stmatrix.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "device/tensor_map.hpp"
#include "error_of.hpp"
#include "host_executor/counting.hpp"
#include "swizzled.hpp"

namespace {

using ladder::half;
using ladder::launch;
using ladder::test::contains;
using ladder::test::error_of;
using namespace ladder::ptx;

class HopperFaults : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Order, HopperFaults, LADDER_ORDERS);

void expect_error(const std::string& error, const char* text) {
  for (const char* part : {text, "host_hopper_faults_test.cpp:", "block (0,0,0)"}) {
    EXPECT_TRUE(contains(error, part));
  }
}

// --- A ring of bulk copies -----------------------------------------------------------------------

enum class Mistake {
  none,
  no_init,
  no_init_fence,
  no_barrier_after_init,
  init_twice,
  no_wait,
  wrong_parity,
  too_few_bytes,
  too_many_bytes,
  uncountable_bytes,
  no_release,
  never_waited,
  one_more_arrival,
  misaligned,
  out_of_shared,
  out_of_global,
  overwritten_barrier,
};

constexpr int kThreads = 64, kStages = 2, kRows = 5;

/// Copies kRows rows of 64 numbers by way of a ring of two stages, and adds 1.
template <Mistake kMistake>
__global__ void ring(const int* in, int* out) {
  alignas(128) __shared__ int rows[kStages][kThreads];
  __shared__ Mbarrier full[kStages];
  const int t = threadIdx.x;
  const auto issue = [&](int row) {
    Mbarrier* const barrier = &full[row % kStages];
    constexpr unsigned kBytes = kThreads * sizeof(int);
    constexpr int kMore = kMistake == Mistake::too_few_bytes       ? 16
                          : kMistake == Mistake::too_many_bytes    ? -16
                          : kMistake == Mistake::uncountable_bytes ? -512  // below 0
                                                                   : 0;
    mbarrier_arrive_expect_tx(barrier, kBytes + kMore);
    const int* from = in + row * kThreads;
    int* to = rows[row % kStages];
    if (kMistake == Mistake::misaligned) ++from;
    if (kMistake == Mistake::out_of_global) from += (kRows - 1) * kThreads + 4;
    if (kMistake == Mistake::out_of_shared) to = ladder::dynamic_shared<int>() + 4;
    bulk_load(to, from, kBytes, barrier);
  };
  if (t == 0) {
    for (int i = 0; i < kStages && kMistake != Mistake::no_init; ++i) mbarrier_init(&full[i], 1);
    if (kMistake == Mistake::init_twice) mbarrier_init(&full[0], 1);
    if (kMistake != Mistake::no_init_fence) fence_proxy_async();
    if (kMistake == Mistake::overwritten_barrier) full[1] = 7;
    for (int row = 0; row < kStages; ++row) issue(row);
    if (kMistake == Mistake::one_more_arrival) {
      mbarrier_wait(&full[0], 0);
      mbarrier_arrive(&full[0]);
      mbarrier_arrive_expect_tx(&full[0], 16);
      mbarrier_arrive(&full[0]);
    }
  }
  if (kMistake != Mistake::no_barrier_after_init) __syncthreads();
  if (kMistake == Mistake::never_waited) return;
  for (int row = 0; row < kRows; ++row) {
    const int stage = row % kStages, phase = row / kStages;
    if (kMistake != Mistake::no_wait) {
      mbarrier_wait(&full[stage], (phase + (kMistake == Mistake::wrong_parity)) % 2);
    }
    const int element = rows[stage][(t + 1) % kThreads];
    if (kMistake != Mistake::no_release) __syncthreads();
    if (t == 0 && row + kStages < kRows) issue(row + kStages);
    out[row * kThreads + t] = element + 1;
  }
}

template <Mistake kMistake>
std::string error_of_ring() {
  Array<int> in(std::vector<int>(kRows * kThreads, 3)), out(kRows * kThreads);
  return error_of([&] {
    launch(ring<kMistake>, 1, kThreads, 256, nullptr, in, out);
    for (const int element : out.read()) ASSERT_EQ(element, 4);
  });
}

TEST_P(HopperFaults, ARingWithoutAMistakeIsRight) { EXPECT_EQ(error_of_ring<Mistake::none>(), ""); }
TEST_P(HopperFaults, CopiesAreCounted) {
  Array<int> in(std::vector<int>(kRows * kThreads)), out(kRows * kThreads);
  const ladder::Counters c =
      ladder::host::count([&] { launch(ring<Mistake::none>, 1, kThreads, 0, nullptr, in, out); });
  const ladder::BulkCopies expected{
      .copies = kRows, .bytes = kRows * kThreads * 4, .sectors = kRows * kThreads * 4 / 32};
  EXPECT_EQ(c.bulk_load, expected);
  EXPECT_EQ(c.bulk_store, ladder::BulkCopies{});
  EXPECT_EQ(c.mbarrier_phases, kRows);
}
TEST_P(HopperFaults, AnMbarrierThatNobodyMade) {
  expect_error(error_of_ring<Mistake::no_init>(), "of an mbarrier that no thread has initialised");
}
TEST_P(HopperFaults, AnMbarrierThatTheCopyEngineDoesNotSee) {
  expect_error(error_of_ring<Mistake::no_init_fence>(), "without fence_proxy_async");
}
TEST_P(HopperFaults, AnMbarrierThatOtherThreadsDoNotSee) {
  EXPECT_NE(error_of_ring<Mistake::no_barrier_after_init>(), "");
}
TEST_P(HopperFaults, AnMbarrierMadeTwice) {
  expect_error(error_of_ring<Mistake::init_twice>(), "of an mbarrier that is in use");
}
TEST_P(HopperFaults, AnMbarrierOverwritten) {
  expect_error(error_of_ring<Mistake::overwritten_barrier>(), "mbarrier that has been overwritten");
}
TEST_P(HopperFaults, ACopyThatIsNotWaitedFor) {
  expect_error(error_of_ring<Mistake::no_wait>(), "finds the bulk copy at");
}
TEST_P(HopperFaults, TheOtherParity) {
  // The copy is late, or the phase has ended and the next one never does.
  expect_error(error_of_ring<Mistake::wrong_parity>(),
               ladder::host::is_eager() ? "mbarrier_wait for phase 1, of parity 1: 1 of 1 arrivals"
                                        : "read before mbarrier_wait: the load at");
}
TEST_P(HopperFaults, BytesThatNeverCome) {
  expect_error(error_of_ring<Mistake::too_few_bytes>(), "of parity 0: 16 bytes missing");
}
TEST_P(HopperFaults, MoreBytesThanAnnounced) {
  expect_error(error_of_ring<Mistake::too_many_bytes>(), "of parity 0: 16 bytes too many");
}
TEST_P(HopperFaults, MoreBytesThanAnMbarrierCounts) {
  expect_error(error_of_ring<Mistake::uncountable_bytes>(),
               "expects 4294967040 bytes: an mbarrier counts up to 1048575");
}
TEST_P(HopperFaults, AStageOverwrittenWhileItIsRead) {
  expect_error(error_of_ring<Mistake::no_release>(), "race in shared memory");
}
TEST_P(HopperFaults, ACopyThatNobodyWaitsFor) {
  if (GetParam() % 2 == 0) {
    expect_error(error_of_ring<Mistake::never_waited>(), "the block ends while the bulk copy at");
  }
}
TEST_P(HopperFaults, MoreArrivalsThanThreads) {
  expect_error(error_of_ring<Mistake::one_more_arrival>(), "threads of the phase have arrived");
}
TEST_P(HopperFaults, WhatIsNoMultipleOf16Bytes) {
  expect_error(error_of_ring<Mistake::misaligned>(), "multiples of 16 bytes");
}
TEST_P(HopperFaults, CopiesOutOfBounds) {
  expect_error(error_of_ring<Mistake::out_of_shared>(), "is outside shared memory");
  expect_error(error_of_ring<Mistake::out_of_global>(), "is out of bounds");
}

// --- Bulk stores ---------------------------------------------------------------------------------

template <Mistake kMistake>
__global__ void store(int* out) {
  alignas(128) __shared__ int row[kThreads];
  const int t = threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    row[t] = i + t;
    if (kMistake != Mistake::no_init_fence) fence_proxy_async();
    __syncthreads();
    if (t == 0) {
      bulk_store(out + i * kThreads, row, sizeof row);
      bulk_commit_group();
      if (kMistake != Mistake::no_wait && kMistake != Mistake::never_waited) {
        bulk_wait_group_read<0>();
      }
    }
    if (kMistake == Mistake::never_waited) return;
    if (kMistake != Mistake::no_release) __syncthreads();
  }
}

template <Mistake kMistake>
std::string error_of_store() {
  Array<int> out(2 * kThreads);
  return error_of([&] {
    launch(store<kMistake>, 1, kThreads, 0, nullptr, out);
    const auto stored = out.read();
    for (int i = 0; i < 2 * kThreads; ++i) ASSERT_EQ(stored[i], i / kThreads + i % kThreads);
  });
}

TEST_P(HopperFaults, StoresWithoutAMistakeAreRight) {
  EXPECT_EQ(error_of_store<Mistake::none>(), "");
}
TEST_P(HopperFaults, AStoreOfWhatTheCopyEngineDoesNotSee) {
  expect_error(error_of_store<Mistake::no_init_fence>(), "without fence_proxy_async");
}
TEST_P(HopperFaults, ARowOverwrittenWhileItIsStored) {
  expect_error(error_of_store<Mistake::no_wait>(), "overwritten while it is read");
  EXPECT_NE(error_of_store<Mistake::no_release>(), "");
}
TEST_P(HopperFaults, ABlockThatEndsWhileItsRowIsStored) {
  expect_error(error_of_store<Mistake::never_waited>(), "may still read its shared memory");
}

enum class After { nothing, no_wait, read_wait, other_group };

/// A thread stores a row, and then reads, or stores, an element of it in global memory.
template <After kAfter>
__global__ void store_and_touch(int* out, bool writes) {
  alignas(128) __shared__ int row[kThreads];
  row[threadIdx.x] = 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  bulk_store(out, row, sizeof row);
  bulk_commit_group();
  if (kAfter == After::read_wait) bulk_wait_group_read<0>();
  if (kAfter == After::other_group) bulk_wait_group<1>();
  if (kAfter == After::nothing) bulk_wait_group<0>();
  if (writes) {
    out[5] = 2;
  } else {
    out[kThreads] = out[5];
  }
  bulk_wait_group<0>();
}

template <After kAfter>
std::string error_of_touch(bool writes) {
  Array<int> out(kThreads + 1);
  return error_of([&] { launch(store_and_touch<kAfter>, 1, kThreads, 0, nullptr, out, writes); });
}

TEST_P(HopperFaults, StoresAreInGlobalMemoryWhenTheyHaveBeenWaitedFor) {
  for (const bool writes : {false, true}) {
    EXPECT_EQ(error_of_touch<After::nothing>(writes), "");
    for (const std::string& error :
         {error_of_touch<After::no_wait>(writes), error_of_touch<After::read_wait>(writes),
          error_of_touch<After::other_group>(writes)}) {
      expect_error(error, writes ? "global memory before bulk_wait_group: the store at"
                                 : "global memory before bulk_wait_group: the load at");
      expect_error(error, "finds the bulk store at");
    }
  }
}

/// Two rows of ones, the second beginning within the first.
__global__ void store_overlapping(int* out) {
  alignas(128) __shared__ int row[kThreads];
  row[threadIdx.x] = 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  bulk_store(out, row, sizeof row);
  bulk_store(out + 16, row, sizeof row);
  bulk_commit_group();
  bulk_wait_group<0>();
}
TEST_P(HopperFaults, StoresOfAThreadMayOverlap) {
  Array<int> out(kThreads + 16);
  EXPECT_EQ(error_of([&] { launch(store_overlapping, 1, kThreads, 0, nullptr, out); }), "");
  EXPECT_EQ(out.read(), std::vector<int>(kThreads + 16, 1));
}

/// Blocks add to the same row; one of them with what is no reduction, or as a flag says.
template <bool kWaits>
__global__ void add_and_tell(int* sum, int* told, bool stores) {
  alignas(128) __shared__ int row[kThreads];
  row[threadIdx.x] = 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  if (stores && blockIdx.x == 1) {
    sum[3] = 7;
    return;
  }
  bulk_reduce<Reduction::add>(sum, row, sizeof row);
  bulk_commit_group();
  if (kWaits) {
    bulk_wait_group<0>();
  } else {
    bulk_wait_group_read<0>();
  }
  __threadfence();
  if (atomicAdd(told, 1) == static_cast<int>(gridDim.x) - 1) {
    __threadfence();
    sum[kThreads] = sum[3];
  }
}

TEST_P(HopperFaults, ReductionsOfSeveralBlocksMeet) {
  Array<int> sum(kThreads + 1), told(1);
  EXPECT_EQ(
      error_of([&] { launch(add_and_tell<true>, 3, kThreads, 0, nullptr, sum, told, false); }), "");
  EXPECT_EQ(sum.read()[kThreads], 3);
}
TEST_P(HopperFaults, AReductionAndAStoreOfTwoBlocks) {
  Array<int> sum(kThreads + 1), told(1);
  const std::string error =
      error_of([&] { launch(add_and_tell<true>, 3, kThreads, 0, nullptr, sum, told, true); });
  EXPECT_NE(error.find("race in global memory: the store at host_hopper_faults_test.cpp:"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("and the bulk reduction of block (0,0,0)"), std::string::npos) << error;
}
TEST_P(HopperFaults, AReductionThatIsReportedBeforeItIsThere) {
  Array<int> sum(kThreads + 1), told(1);
  const std::string error =
      error_of([&] { launch(add_and_tell<false>, 3, kThreads, 0, nullptr, sum, told, false); });
  EXPECT_NE(error.find("finds the bulk reduction at host_hopper_faults_test.cpp:"),
            std::string::npos)
      << error;
}

__global__ void reduce_floats(const __grid_constant__ CUtensorMap map) {
  alignas(128) __shared__ float row[kThreads];
  row[threadIdx.x] = 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  tensor_reduce<Reduction::min>(&map, 0, row);
  bulk_commit_group();
  bulk_wait_group_read<0>();
}
TEST_P(HopperFaults, AReductionThatPtxHasNot) {
  Array<float> out(kThreads);
  const CUtensorMap map = ladder::tensor_map(ladder::DType::f32, out,
                                             {{.size = kThreads, .stride = 4, .box = kThreads}},
                                             CU_TENSOR_MAP_SWIZZLE_NONE);
  expect_error(error_of([&] { launch(reduce_floats, 1, kThreads, 0, nullptr, map); }),
               "there is none of data type 7");
}

__global__ void store_row_at(const __grid_constant__ CUtensorMap map, int x, int y) {
  alignas(128) __shared__ float row[kThreads];
  row[threadIdx.x] = 1;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  tensor_store(&map, x, y, row);
  bulk_commit_group();
  bulk_wait_group_read<0>();
}
TEST_P(HopperFaults, BoxesThatTheCopyEngineStoresOtherwise) {
  Array<float> out(2 * kThreads);
  const auto error_at = [&](int x, int y, int columns = kThreads) {
    return error_of([&] {
      launch(store_row_at, 1, kThreads, 0, nullptr,
             ladder::tensor_map(ladder::DType::f32, out,
                                {{.size = columns, .stride = 4, .box = kThreads},
                                 {.size = 2, .stride = kThreads * 4, .box = 1}},
                                CU_TENSOR_MAP_SWIZZLE_NONE),
             x, y);
    });
  };
  for (const int x : {0, 4, kThreads, 2 * kThreads}) {
    for (const int y : {0, 1, 2, 9}) EXPECT_EQ(error_at(x, y), "") << x << ", " << y;
  }
  for (const int x : {1, 5}) {
    const std::string begins = "begins at element " + std::to_string(x) + " of the innermost";
    expect_error(error_at(x, 0), (begins + " dimension: no multiple of 16 bytes").c_str());
  }
  expect_error(error_at(-8, 0), "begins at a negative coordinate: only loads may");
  expect_error(error_at(0, -1), "begins at a negative coordinate: only loads may");
  expect_error(error_at(0, 0, kThreads - 3),
               "the last of the innermost dimension: of its 16 bytes");
  EXPECT_EQ(error_at(kThreads - 4, 0, kThreads - 4), "");
}

// --- stmatrix ------------------------------------------------------------------------------------

__global__ void store_rows(int pitch) {
  __shared__ __align__(16) std::uint16_t rows[32 * 64];
  stmatrix(&rows[threadIdx.x * pitch], {0, 0, 0, 0});
}
TEST_P(HopperFaults, StmatrixIsCountedByItself) {
  for (const auto& [pitch, wavefronts] : {std::pair(8, 4u), {64, 32u}}) {
    const ladder::Counters c =
        ladder::host::count([&] { launch(store_rows, 1, 32, 0, nullptr, pitch); });
    const ladder::Requests expected{
        .requests = 1, .units = wavefronts, .ideal = 4, .lanes = 32, .bytes = 32 * 16};
    EXPECT_EQ(c.shared_stmatrix, expected) << pitch;
    EXPECT_EQ(c.shared_store, ladder::Requests{}) << pitch;
  }
}

// --- wgmma ---------------------------------------------------------------------------------------

enum class Wrong {
  nothing,
  no_proxy_fence,
  no_fence,
  no_wait,
  no_commit,
  never_waited,
  a_warp_ends,
  overwritten,
  loaded,
  stored,
  descriptor,
  disagree,
};

template <Wrong kWrong>
__global__ void __launch_bounds__(128) product(float* out) {
  half* const shared = ladder::dynamic_shared<half>();
  half* const a = shared + (-shared_address(shared) & 1023) / sizeof(half);
  half* const b = a + 64 * 64;
  for (int i = threadIdx.x; i < 2 * 64 * 64; i += 128) a[i] = half(1.0f);
  if (kWrong != Wrong::no_proxy_fence) fence_proxy_async();
  __syncthreads();
  float sum[32] = {};
  if (kWrong != Wrong::no_fence) wgmma_fence();
  const int beyond = kWrong == Wrong::descriptor                       ? 64 * 64
                     : kWrong == Wrong::disagree && threadIdx.x == 100 ? 16
                                                                       : 0;
  wgmma<64, Major::k, Major::k, half>(sum, wgmma_descriptor<Major::k>(a),
                                      wgmma_descriptor<Major::k>(b + beyond), true);
  if (kWrong != Wrong::no_commit) wgmma_commit_group();
  if (kWrong == Wrong::never_waited) return;
  if (kWrong == Wrong::overwritten) {
    __syncthreads();
    a[threadIdx.x] = half(2.0f);
  }
  if (kWrong == Wrong::a_warp_ends && threadIdx.x >= 96) return;
  if (kWrong != Wrong::no_wait) wgmma_wait_group<0>(sum);
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = sum[i];
}

/// The same with operands that copies bring, the second of which everybody has waited for.
template <bool kWaitsForBoth>
__global__ void __launch_bounds__(128) product_of_copies(const half* in, float* out) {
  half* const shared = ladder::dynamic_shared<half>();
  half* const a = shared + (-shared_address(shared) & 1023) / sizeof(half);
  half* const b = a + 64 * 64;
  __shared__ Mbarrier full[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) mbarrier_init(&full[i], 1);
    fence_proxy_async();
    for (int i = 0; i < 2; ++i) {
      constexpr unsigned kBytes = 64 * 64 * sizeof(half);
      mbarrier_arrive_expect_tx(&full[i], kBytes);
      bulk_load(i == 0 ? a : b, in, kBytes, &full[i]);
    }
  }
  __syncthreads();
  if (kWaitsForBoth) mbarrier_wait(&full[0], 0);
  mbarrier_wait(&full[1], 0);
  float sum[32] = {};
  wgmma_fence();
  wgmma<64, Major::k, Major::k, half>(sum, wgmma_descriptor<Major::k>(a),
                                      wgmma_descriptor<Major::k>(b), true);
  wgmma_commit_group();
  if (!kWaitsForBoth) mbarrier_wait(&full[0], 0);
  wgmma_wait_group<0>(sum);
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = sum[i];
}

template <bool kWaitsForBoth>
std::string error_of_copies() {
  Array<half> in(std::vector<half>(64 * 64, half(1.0f)));
  Array<float> out(128 * 32);
  return error_of([&] {
    launch(product_of_copies<kWaitsForBoth>, 1, 128, 1024 + 2 * 64 * 64 * sizeof(half), nullptr, in,
           out);
    for (const float sum : out.read()) ASSERT_EQ(sum, 16);
  });
}

template <Wrong kWrong>
std::string error_of_product() {
  Array<float> out(128 * 32);
  return error_of([&] {
    launch(product<kWrong>, 1, 128, 1024 + 2 * 64 * 64 * sizeof(half), nullptr, out);
    for (const float sum : out.read()) ASSERT_EQ(sum, 16);
  });
}

TEST_P(HopperFaults, AProductWithoutAMistakeIsRight) {
  EXPECT_EQ(error_of_product<Wrong::nothing>(), "");
}
TEST_P(HopperFaults, ProductsAreCounted) {
  const ladder::Products products =
      ladder::host::count([] { error_of_product<Wrong::nothing>(); }).wgmma;
  EXPECT_EQ(products.products, 1u);
  EXPECT_EQ(products.bytes, (64 + 64) * 32u) << "of 16 halves of each row of A and B";
}
TEST_P(HopperFaults, OperandsThatWgmmaDoesNotSee) {
  expect_error(error_of_product<Wrong::no_proxy_fence>(), "without fence_proxy_async");
}
TEST_P(HopperFaults, OperandsThatAreWaitedForBehindTheProduct) {
  EXPECT_EQ(error_of_copies<true>(), "");
  expect_error(error_of_copies<false>(), "read before mbarrier_wait: the wgmma at");
}
TEST_P(HopperFaults, SumsThatWgmmaDoesNotSee) {
  expect_error(error_of_product<Wrong::no_fence>(), "follows no wgmma_fence");
}
TEST_P(HopperFaults, AProductThatNobodyWaitsFor) {
  expect_error(error_of_product<Wrong::never_waited>(), "the block ends while the wgmma at");
}
TEST_P(HopperFaults, SumsReadBeforeTheyAreThere) {
  expect_error(error_of_product<Wrong::no_wait>(),
               "a register of D is touched while a product has it: the load at");
  expect_error(error_of_product<Wrong::no_wait>(), "and no wgmma_wait_group has waited for it");
  expect_error(error_of_product<Wrong::no_commit>(), "in no group: no wgmma_commit_group has come");
}
TEST_P(HopperFaults, AWarpThatDoesNotWaitWithItsWarpgroup) {
  expect_error(error_of_product<Wrong::a_warp_ends>(),
               "96 threads wait at wgmma_wait_group<0>: 96 of the warpgroup's 128 threads "
               "(host_hopper_faults_test.cpp:");
}
TEST_P(HopperFaults, OperandsOverwrittenUnderAProduct) {
  expect_error(error_of_product<Wrong::overwritten>(), "overwritten while it is read");
}
TEST_P(HopperFaults, ADescriptorBeyondSharedMemory) {
  expect_error(error_of_product<Wrong::descriptor>(), "is outside shared memory");
}
TEST_P(HopperFaults, ThreadsThatAskForDifferentProducts) {
  expect_error(error_of_product<Wrong::disagree>(), "ask for different products");
}

/// A is in registers, and its second half of K in registers that are used again.
template <Wrong kWrong>
__global__ void __launch_bounds__(128) product_of_registers(float* out) {
  half* const shared = ladder::dynamic_shared<half>();
  half* const b = shared + (-shared_address(shared) & 1023) / sizeof(half);
  for (int i = threadIdx.x; i < 64 * 64; i += 128) b[i] = half(1.0f);
  fence_proxy_async();
  __syncthreads();
  float sum[32];
  constexpr std::uint32_t kOnes = 0x3c003c00;  // of f16
  std::uint32_t a[4] = {};
  for (int step = 0; step < 2; ++step) {
    if (kWrong == Wrong::no_fence) wgmma_fence();
    for (std::uint32_t& pair : a) pair = (step + 1) * kOnes;
    if (kWrong != Wrong::no_fence) wgmma_fence(a);
    wgmma<64, Major::k, half>(sum, a, wgmma_descriptor<Major::k>(b), step > 0);
    wgmma_commit_group();
    if (kWrong == Wrong::loaded) ldmatrix(a, b + threadIdx.x % 32 * 8);
    if (kWrong == Wrong::stored) stmatrix(b + 64 * 64 + threadIdx.x * 8, a);
    if (kWrong != Wrong::no_wait) wgmma_wait_group<0>(sum, a);
  }
  if (kWrong == Wrong::no_wait) wgmma_wait_group<0>(sum, a);
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = sum[i];
}

template <Wrong kWrong>
std::string error_of_registers() {
  Array<float> out(128 * 32);
  return error_of([&] {
    launch(product_of_registers<kWrong>, 1, 128, 1024 + (64 + 16) * 64 * sizeof(half), nullptr,
           out);
    for (const float sum : out.read()) ASSERT_EQ(sum, 16 * (1 + 32768.0f));
  });
}

TEST_P(HopperFaults, AProductOfRegistersWithoutAMistakeIsRight) {
  EXPECT_EQ(error_of_registers<Wrong::nothing>(), "");
}
TEST_P(HopperFaults, AOfRegistersIsNotReadFromSharedMemory) {
  const ladder::Products products =
      ladder::host::count([] { error_of_registers<Wrong::nothing>(); }).wgmma;
  EXPECT_EQ(products.products, 2u);
  EXPECT_EQ(products.bytes, 2 * 64 * 32u);
}
TEST_P(HopperFaults, RegistersOfAThatWgmmaDoesNotSee) {
  const std::string error = error_of_registers<Wrong::no_fence>();
  expect_error(error, "follows no wgmma_fence since the store at host_hopper_faults_test.cpp:");
  expect_error(error, "of a register of its own");
}
TEST_P(HopperFaults, RegistersOfAOverwrittenUnderAProduct) {
  expect_error(error_of_registers<Wrong::no_wait>(),
               "a register of A is touched while a product has it: the store at");
  expect_error(error_of_registers<Wrong::loaded>(),
               "a register of A is touched while a product has it: the store at");
  expect_error(error_of_registers<Wrong::stored>(),
               "a register of A is touched while a product has it: the load at");
}

// --- Named barriers ------------------------------------------------------------------------------

__global__ void meet(int* out, int threads) {
  __shared__ int numbers[128];
  numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (threads == 64) {
    named_barrier_sync<64>(1 + threadIdx.x / 64);
  } else {
    if (threadIdx.x >= 64) return;
    named_barrier_sync<96>(1);
  }
  out[threadIdx.x] = numbers[threadIdx.x ^ 63];
}

TEST_P(HopperFaults, NamedBarriersOrderTheirThreads) {
  Array<int> out(128);
  launch(meet, 1, 128, 0, nullptr, out, 64);
  const auto met = out.read();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(met[i], i ^ 63);
}
TEST_P(HopperFaults, ANamedBarrierThatTooFewReach) {
  Array<int> out(128);
  expect_error(error_of([&] { launch(meet, 1, 128, 0, nullptr, out, 96); }),
               "named_barrier_sync 1: 64 of 96 threads");
}

/// A team of 64 writes and arrives at a barrier where the other waits, or goes on without.
__global__ void hand_over(int* out, bool arrives) {
  __shared__ int numbers[64];
  if (threadIdx.x < 64) {
    numbers[threadIdx.x] = 1;
    if (arrives) named_barrier_arrive<128>(1);
  } else {
    named_barrier_sync<128>(1);
    out[threadIdx.x] = numbers[127 - threadIdx.x];
  }
}
TEST_P(HopperFaults, ANamedBarrierThatATeamDoesNotArriveAt) {
  Array<int> out(128);
  EXPECT_EQ(error_of([&] { launch(hand_over, 1, 128, 0, nullptr, out, true); }), "");
  expect_error(error_of([&] { launch(hand_over, 1, 128, 0, nullptr, out, false); }),
               "named_barrier_sync 1: 64 of 128 threads");
}

// --- Registers that change hands -----------------------------------------------------------------

enum class Trade { right, too_many, inc_to_fewer, dec_to_more, some_warps };

/// A block of three warpgroups has 168 registers per thread.
template <Trade kTrade>
__global__ void __launch_bounds__(384, 1) trade() {
  if (threadIdx.x < 128) {
    if (kTrade == Trade::dec_to_more) setmaxnreg_dec<176>();
    if (kTrade == Trade::some_warps && threadIdx.x < 32) return;
    setmaxnreg_dec<40>();
  } else if (kTrade == Trade::some_warps) {
    return;
  } else if (kTrade == Trade::inc_to_fewer) {
    setmaxnreg_inc<160>();
  } else {
    setmaxnreg_inc<(kTrade == Trade::too_many ? 240 : 232)>();
  }
}
template <Trade kTrade>
std::string error_of_trade() {
  return error_of([&] { launch(trade<kTrade>, 1, 384, 0, nullptr); });
}

TEST_P(HopperFaults, RegistersThatTheBlockHasNot) {
  EXPECT_EQ(error_of_trade<Trade::right>(), "");
  expect_error(error_of_trade<Trade::too_many>(),
               "threads wait at setmaxnreg_inc<240>: 40 registers are free "
               "(host_hopper_faults_test.cpp:");
  expect_error(error_of_trade<Trade::inc_to_fewer>(), "setmaxnreg_inc<160> at ");
  expect_error(error_of_trade<Trade::dec_to_more>(), "setmaxnreg_dec<176> at ");
  EXPECT_NE(error_of_trade<Trade::some_warps>().find(
                "thread (32,0,0) with 40, the one before it with 168, as not all have executed"),
            std::string::npos);
}

}  // namespace

#endif
