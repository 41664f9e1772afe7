// What ends a kernel on the host executor: accesses out of bounds, misaligned ones, values of shared
// memory that nobody wrote, races. And that nothing else does.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>

#include "device/ptx/cp_async.hpp"
#include "device/vector.hpp"
#include "host_executor/steps.hpp"
#include "host_kernels.hpp"

#if !defined(__SANITIZE_ADDRESS__)  // whose instrumentation takes the place of the checks'

namespace {

using namespace ladder::test;
using ladder::dynamic_shared;
using ladder::half;
using ladder::launch;

std::string at(int line) { return " at host_faults_test.cpp:" + std::to_string(line) + " "; }

// --- Out of bounds and misaligned ----------------------------------------------------------------

__global__ void load_at(const float* in, float* out, std::ptrdiff_t i) { out[0] = in[i]; }
constexpr int kLoadAt = __LINE__ - 1;
__global__ void store_at(float* out, std::ptrdiff_t i) {
  if (threadIdx.x == 5) out[i] = 1.0f;
}
constexpr int kStoreAt = __LINE__ - 2;

TEST_P(AnyOrder, GlobalAccessesOutOfBounds) {
  Array<float> data(100), out(1);
  const auto load = [&](std::ptrdiff_t i) {
    return error_of([&] { run_block(1, load_at, data, out, i); });
  };
  EXPECT_EQ(load(0), "");
  EXPECT_EQ(load(99), "");
  EXPECT_TRUE(contains(load(100), "block (0,0,0) thread (0,0,0): the load of 4 bytes" +
                                      at(kLoadAt) +
                                      "is out of bounds: 0 bytes past the end of "
                                      "an allocation of 400 bytes"));
  EXPECT_TRUE(contains(load(103), "12 bytes past the end of an allocation of 400 bytes"));
  EXPECT_TRUE(contains(load(-1), "4 bytes before an allocation of 400 bytes"));
  EXPECT_TRUE(contains(load(1 << 28), "past the end of an allocation of"));

  const std::string error = error_of([&] { run_block(32, store_at, data, 100); });
  EXPECT_TRUE(contains(error, "thread (5,0,0): the store of 4 bytes" + at(kStoreAt)));
  EXPECT_EQ(error_of([&] { run_block(32, store_at, data, 99); }), "") << "it works after an error";
}

TEST_P(AnyOrder, NullPointers) {
  EXPECT_TRUE(contains(error_of([] { run_block(32, store_at, nullptr, 3); }),
                       "the store of 4 bytes" + at(kStoreAt) + "is at a null pointer"));
}

__global__ void load_vector_at(const float* in, float4* out, unsigned i) {
  out[0] = *reinterpret_cast<const float4*>(in + i);
}
constexpr int kLoadVectorAt = __LINE__ - 2;

TEST_P(AnyOrder, MisalignedGlobalAccess) {
  Array<float> in(8);
  Array<float4> out(1);
  EXPECT_EQ(error_of([&] { run_block(1, load_vector_at, in, out, 4u); }), "");
  EXPECT_TRUE(contains(error_of([&] { run_block(1, load_vector_at, in, out, 1u); }),
                       "the load of 16 bytes" + at(kLoadVectorAt) + "is misaligned"));
  EXPECT_TRUE(
      contains(error_of([&] { run_block(1, load_vector_at, in, out, 8u); }), "out of bounds"));
}

__global__ void last_of_a_vector(const float* in, float4* out) {
  out[0] = *reinterpret_cast<const float4*>(in);
}

TEST_P(AnyOrder, AnAccessThatBeginsInBoundsAndEndsBeyond) {
  Array<float> in(3);
  Array<float4> out(1);
  EXPECT_TRUE(contains(error_of([&] { run_block(1, last_of_a_vector, in, out); }),
                       "12 bytes before the end of an allocation of 12 bytes"));
}

__global__ void store_dynamic_at(int i) { dynamic_shared<float>()[i] = 1.0f; }
constexpr int kStoreDynamicAt = __LINE__ - 1;

TEST_P(AnyOrder, SharedAccessesOutOfBounds) {
  const auto store = [](int i) {
    return error_of([&] { launch(store_dynamic_at, 1, 1, 64 * sizeof(float), nullptr, i); });
  };
  EXPECT_EQ(store(63), "");
  EXPECT_TRUE(contains(store(64), "the store of 4 bytes" + at(kStoreDynamicAt) +
                                      "is outside shared memory: at byte 256 of 256"));
  EXPECT_TRUE(contains(store(-1), "outside shared memory: at byte -4 of 256"));
  EXPECT_TRUE(contains(store(60000), "outside shared memory"));
}

__global__ void store_misaligned_in_shared(unsigned i) {
  *reinterpret_cast<float2*>(dynamic_shared<float>() + i) = make_float2(1, 2);
}
constexpr int kStoreMisaligned = __LINE__ - 2;

TEST_P(AnyOrder, MisalignedSharedAccess) {
  const auto store = [](unsigned i) {
    return error_of([&] { launch(store_misaligned_in_shared, 1, 1, 64, nullptr, i); });
  };
  EXPECT_EQ(store(2), "");
  EXPECT_TRUE(
      contains(error_of([&] { launch(store_misaligned_in_shared, 1, 1, 68, nullptr, 16u); }),
               "is outside shared memory: at byte 64 of 68"));
  EXPECT_TRUE(contains(store(3), "the store of 8 bytes" + at(kStoreMisaligned) + "is misaligned"));
}

struct Triple {
  float x, y, z;
};
__global__ void copy_triples(const Triple* in, Triple* out) { out[threadIdx.x] = in[threadIdx.x]; }

TEST_P(AnyOrder, AStructIsAsAlignedAsItsMembers) {
  Array<Triple> in(33), out(33);
  EXPECT_EQ(error_of([&] { run_block(33, copy_triples, in, out); }), "");
}

// --- Shared memory that nobody wrote -------------------------------------------------------------

template <class T>
__global__ void read_static(T* out, unsigned written) {
  __shared__ T values[64];
  if (threadIdx.x < written) values[threadIdx.x] = T(1.0f);
  __syncthreads();
  if (blockIdx.x == 1) out[threadIdx.x] = values[threadIdx.x];
}
constexpr int kReadStatic = __LINE__ - 2;

template <class T>
void expect_written() {
  Array<T> out(64);
  EXPECT_EQ(error_of([&] { launch(read_static<T>, 2, 64, 0, nullptr, out, 64u); }), "");
  EXPECT_TRUE(contains(error_of([&] { launch(read_static<T>, 2, 64, 0, nullptr, out, 63u); }),
                       "block (1,0,0) thread (63,0,0): the load" + at(kReadStatic) +
                           "finds shared memory that no thread of the block has written"));
}

TEST_P(AnyOrder, StaticSharedMemoryHoldsNothingWhenABlockStarts) {
  expect_written<float>();
  expect_written<half>();
  expect_written<ladder::bfloat16>();
}

__global__ void read_dynamic(float* out) {
  auto* values = dynamic_shared<float>();
  if (threadIdx.x > 0) values[threadIdx.x] = 1.0f;
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_P(AnyOrder, DynamicSharedMemoryHoldsNothingWhenABlockStarts) {
  Array<float> out(64);
  EXPECT_TRUE(contains(error_of([&] { launch(read_dynamic, 1, 64, 256, nullptr, out); }),
                       "finds shared memory that no thread of the block has written"));
}

template <bool kSome>
__global__ void read_vector(float* out, int used) {
  using Vec = ladder::Vec128<float>;
  __shared__ __align__(16) float values[Vec::size];
  if (threadIdx.x == 0) values[0] = 1.0f;
  __syncthreads();
  const Vec read = kSome ? Vec::load_some(values) : Vec::load(values);
  out[threadIdx.x] = read[used];
}

TEST_P(AnyOrder, OfAVectorSomeMayBeUnwritten) {
  Array<float> out(64);
  EXPECT_EQ(error_of([&] { run_block(64, read_vector<true>, out, 0); }), "");
  EXPECT_EQ(out[63], 1.0f);
  EXPECT_TRUE(contains(error_of([&] { run_block(64, read_vector<false>, out, 0); }),
                       "finds shared memory that no thread of the block has written"));
}

__global__ void read_some_at(const float* in, float* out) {
  out[0] = ladder::Vec128<float>::load_some(in)[0];
}

TEST_P(AnyOrder, AFaultLeavesNothingAllowed) {
  Array<float> data(4), out(64);
  EXPECT_NE(error_of([&] { run_block(1, read_some_at, data + 4, out); }), "");
  EXPECT_TRUE(contains(error_of([&] { run_block(64, read_vector<false>, out, 0); }),
                       "finds shared memory that no thread of the block has written"));
}

__global__ void count_without_zero(unsigned* out) {
  __shared__ unsigned counter;
  atomicAdd(&counter, 1u);
  __syncthreads();
  out[0] = counter;
}

TEST_P(AnyOrder, AnAtomicOperationReadsToo) {
  Array<unsigned> out(1);
  EXPECT_TRUE(contains(error_of([&] { run_block(2, count_without_zero, out); }),
                       "the atomic operation at host_faults_test.cpp:"));
}

// --- Races ---------------------------------------------------------------------------------------

enum class Fence { none, shuffle, warp, block };

__device__ void fence(Fence kind) {
  if (kind == Fence::shuffle) __shfl_xor_sync(kAllLanes, 1, 1);
  if (kind == Fence::warp) __syncwarp();
  if (kind == Fence::block) __syncthreads();
}

/// Thread t writes, and then reads what thread t ^ distance wrote.
__global__ void exchange(float* out, unsigned distance, Fence kind) {
  __shared__ float values[64];
  values[threadIdx.x] = 1.0f;
  fence(Fence::block);
  values[threadIdx.x] = 2.0f;
  fence(kind);
  out[threadIdx.x] = values[threadIdx.x ^ distance];
}
constexpr int kWrite = __LINE__ - 4, kRead = __LINE__ - 2;

TEST_P(AnyOrder, ReadAfterWrite) {
  Array<float> out(64);
  const auto error = [&](unsigned distance, Fence kind) {
    return error_of([&] { run_block(64, exchange, out, distance, kind); });
  };
  const std::string load = "the load" + at(kRead), store = "store of thread (";
  // Within a warp; the thread that comes second may be either of the two.
  for (const Fence kind : {Fence::none, Fence::shuffle}) {
    const std::string text = error(1, kind);
    EXPECT_TRUE(contains(text, "race in shared memory: the "));
    EXPECT_TRUE(contains(text, ":" + std::to_string(kRead)));
    EXPECT_TRUE(contains(text, ":" + std::to_string(kWrite)));
    EXPECT_TRUE(contains(text, "have no __syncwarp between them"));
  }
  EXPECT_EQ(error(1, Fence::warp), "");
  EXPECT_EQ(error(1, Fence::block), "");
  // Between warps.
  for (const Fence kind : {Fence::none, Fence::shuffle, Fence::warp}) {
    EXPECT_TRUE(contains(error(32, kind), "have no __syncthreads between them"));
  }
  EXPECT_EQ(error(32, Fence::block), "");
  EXPECT_EQ(error(0, Fence::none), "") << "a thread and itself";
}

/// Thread t reads what thread t ^ distance wrote, and then writes its own anew.
__global__ void read_then_write(float* out, unsigned distance, Fence kind) {
  __shared__ float values[64];
  values[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x ^ distance];
  fence(kind);
  values[threadIdx.x] = 2.0f;
}

TEST_P(AnyOrder, WriteAfterRead) {
  Array<float> out(64);
  const auto error = [&](unsigned distance, Fence kind) {
    return error_of([&] { run_block(64, read_then_write, out, distance, kind); });
  };
  EXPECT_TRUE(contains(error(1, Fence::none), "__syncwarp"));
  EXPECT_TRUE(contains(error(1, Fence::shuffle), "__syncwarp"));
  EXPECT_EQ(error(1, Fence::warp), "");
  EXPECT_TRUE(contains(error(32, Fence::warp), "__syncthreads"));
  EXPECT_EQ(error(32, Fence::block), "");
}

__global__ void write_twice(float* out, unsigned divisor, Fence kind) {
  __shared__ float values[64];
  values[threadIdx.x] = 1.0f;
  fence(kind);
  values[threadIdx.x / divisor] = 2.0f;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_P(AnyOrder, WriteAfterWrite) {
  Array<float> out(64);
  EXPECT_EQ(error_of([&] { run_block(64, write_twice, out, 1u, Fence::none); }), "");
  EXPECT_TRUE(contains(error_of([&] { run_block(64, write_twice, out, 2u, Fence::block); }),
                       "the store at host_faults_test.cpp:"));
}

__global__ void partial_fence(float* out, unsigned mask) {
  __shared__ float values[32];
  values[threadIdx.x] = 1.0f;
  __syncthreads();
  values[threadIdx.x] = 2.0f;
  if (mask >> threadIdx.x & 1) __syncwarp(mask);
  if (threadIdx.x < 16) out[threadIdx.x] = values[threadIdx.x ^ 1];
}

TEST_P(AnyOrder, SyncwarpOrdersTheLanesInItsMask) {
  Array<float> out(32);
  EXPECT_EQ(error_of([&] { run_block(32, partial_fence, out, 0x0000ffffu); }), "");
  EXPECT_TRUE(contains(error_of([&] { run_block(32, partial_fence, out, 0xffff0000u); }), "race"));
}

/// Lane 0 tells lane 1, which tells lane 2.
__global__ void relay(float* out) {
  __shared__ float value;
  if (threadIdx.x == 0) value = 1.0f;
  if (threadIdx.x <= 1) __syncwarp(0b011);
  if (threadIdx.x >= 1) __syncwarp(0b110);
  out[threadIdx.x] = threadIdx.x == 2 ? value : 0.0f;
}

TEST_P(AnyOrder, OrderIsTransitive) {
  Array<float> out(3);
  EXPECT_EQ(error_of([&] { run_block(3, relay, out); }), "");
}

__global__ void histogram(unsigned* out, bool fenced) {
  __shared__ unsigned bins[2];
  if (threadIdx.x < 2) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[threadIdx.x % 2], 1u);
  if (fenced) __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = bins[threadIdx.x];
}

TEST_P(AnyOrder, AtomicOperationsRaceOnlyWithOtherAccesses) {
  Array<unsigned> out(2);
  EXPECT_EQ(error_of([&] { run_block(64, histogram, out, true); }), "");
  EXPECT_EQ(out[0], 32u);
  EXPECT_TRUE(contains(error_of([&] { run_block(64, histogram, out, false); }), "race"));
}

template <class T>
__global__ void neighbours(T* out) {
  __shared__ T values[64];
  values[threadIdx.x] = T(1);
  values[threadIdx.x] = T(2);
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_P(AnyOrder, NeighboursInOneWordDoNotRace) {
  Array<char> bytes(64);
  Array<short> shorts(64);
  EXPECT_EQ(error_of([&] { run_block(64, neighbours<char>, bytes); }), "");
  EXPECT_EQ(error_of([&] { run_block(64, neighbours<short>, shorts); }), "");
}

__global__ void words_then_halves(float* out, bool fenced) {
  __shared__ float4 values[16];
  if (threadIdx.x < 16) values[threadIdx.x] = make_float4(1, 2, 3, 4);
  if (fenced) __syncthreads();
  out[threadIdx.x] = static_cast<float>(reinterpret_cast<half*>(values)[threadIdx.x]);
}

TEST_P(AnyOrder, AccessesOfDifferentWidthsMeet) {
  Array<float> out(128);
  EXPECT_EQ(error_of([&] { run_block(128, words_then_halves, out, true); }), "");
  EXPECT_NE(error_of([&] { run_block(128, words_then_halves, out, false); }), "");
}

// --- A missing __syncthreads is called so --------------------------------------------------------

/// Lanes of one warp race first, under every order: the other warps come to the race later.
__global__ void reverse_in_block(float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = 1.0f;
  __syncthreads();
  values[threadIdx.x] = 2.0f;
  __syncwarp(1u << threadIdx.x % 32);
  out[threadIdx.x] = values[threadIdx.x ^ 1] + values[63 - threadIdx.x];
}

TEST_P(AnyOrder, ARaceOfAllWarpsLacksSyncthreads) {
  Array<float> out(64);
  const std::string error = error_of([&] { run_block(64, reverse_in_block, out); });
  EXPECT_TRUE(contains(error, "race in shared memory: the "));
  EXPECT_TRUE(contains(error, "have no __syncthreads between them"));
}

__global__ void race_and_then(float* out, bool out_of_bounds) {
  __shared__ float values[64];
  values[threadIdx.x] = 1.0f;
  __syncthreads();
  values[threadIdx.x] = 2.0f;
  if (values[threadIdx.x ^ 1] == 2.0f && out_of_bounds) out[64] = 1.0f;
  __syncthreads();
  out[64] = 1.0f;
}

TEST_P(AnyOrder, TheRaceComesBeforeWhatComesOfIt) {
  Array<float> out(64);
  for (const bool out_of_bounds : {false, true}) {
    EXPECT_TRUE(contains(error_of([&] { run_block(64, race_and_then, out, out_of_bounds); }),
                         "have no __syncwarp between them"));
  }
}

// --- Asynchronous writes -------------------------------------------------------------------------

enum class Slip { none, refills_too_early, waits_for_too_few, has_no_barrier };

/// The queue of three slices of gemm's v13, two of them on their way. Each thread adds up what
/// another warp copied.
template <Slip kSlip>
__global__ void multistage(const float* in, float* out, int slices) {
  using namespace ladder::ptx;
  constexpr int kStages = 3, kSize = 64;
  auto* const stages = dynamic_shared<float>();
  const int t = threadIdx.x;
  auto copy = [&](int slice) {
    cp_async<4>(&stages[slice % kStages * kSize + t], &in[slice * kSize + t],
                slice < slices ? 4 : 0);
    cp_async_commit_group();
  };
  float sum = 0;
  for (int s = 0; s < kStages - 1; ++s) copy(s);
  for (int slice = 0; slice < slices; ++slice) {
    if (kSlip == Slip::refills_too_early) copy(slice + kStages - 1);
    constexpr bool kOneMore = kSlip == Slip::refills_too_early || kSlip == Slip::waits_for_too_few;
    cp_async_wait_group<kStages - 2 + kOneMore>();
    if (kSlip != Slip::has_no_barrier || slice == 0) __syncthreads();
    if (kSlip != Slip::refills_too_early) copy(slice + kStages - 1);
    sum += stages[slice % kStages * kSize + (t ^ 33)];
  }
  out[t] = sum;
}
constexpr int kCopy = __LINE__ - 16, kAdd = __LINE__ - 4;

template <Slip kSlip>
std::string error_of_multistage() {
  Array<float> in(5 * 64), out(64);
  std::iota(in.begin(), in.end(), 0.0f);
  const std::string error = error_of(
      [&] { launch(multistage<kSlip>, 1, 64, 3 * 64 * sizeof(float), nullptr, in, out, 5); });
  if (error.empty()) {
    for (int t = 0; t < 64; ++t) EXPECT_EQ(out[t], 5.0f * static_cast<float>(128 + (t ^ 33)));
  }
  return error;
}

TEST_P(AnyOrder, AQueueOfCopiesIsInOrder) { EXPECT_EQ(error_of_multistage<Slip::none>(), ""); }

TEST_P(AnyOrder, ACopyIsAWriteFromItsIssueOn) {
  const std::string error = error_of_multistage<Slip::refills_too_early>();
  EXPECT_TRUE(contains(error, "race in shared memory: the "));
  EXPECT_TRUE(contains(error, "cp.async"));
  EXPECT_TRUE(contains(error, ":" + std::to_string(kCopy)));
  EXPECT_TRUE(contains(error, ":" + std::to_string(kAdd)));
  EXPECT_TRUE(contains(error, "have no __syncthreads between them"));
}

TEST_P(AnyOrder, ACopyIsReadAfterItsWait) {
  const std::string error = error_of_multistage<Slip::waits_for_too_few>();
  EXPECT_TRUE(contains(error, "read before cp_async_wait_group and a barrier: the load" + at(kAdd) +
                                  "finds the cp.async of thread ("));
  EXPECT_TRUE(contains(error, at(kCopy) + "still on its way"));
}

TEST_P(AnyOrder, ACopyIsReadAfterABarrier) {
  const std::string error = error_of_multistage<Slip::has_no_barrier>();
  // What comes first depends on the order: the load, or its thread's wait.
  EXPECT_TRUE(contains(error, "the load" + at(kAdd)));
  EXPECT_TRUE(contains(error, "cp.async"));
  EXPECT_TRUE(contains(error, ":" + std::to_string(kCopy)));
}

enum class Use { load, store, copy };

/// Each thread uses what it alone copies to, before the wait or after it.
__global__ void use_own_copy(const float* in, float* out, Use use, bool waits) {
  using namespace ladder::ptx;
  auto* const values = dynamic_shared<float>();
  const int t = threadIdx.x;
  cp_async<4>(&values[t], &in[t]);
  cp_async_commit_group();
  if (waits) cp_async_wait_group<0>();
  if (use == Use::load) out[t] = values[t];
  if (use == Use::store) values[t] = 1.0f;
  if (use == Use::copy) cp_async<4>(&values[t], &in[t]);
}

TEST_P(AnyOrder, NobodyTouchesTheDestinationBeforeTheWait) {
  Array<float> in(64), out(64);
  const auto error = [&](Use use, bool waits) {
    return error_of(
        [&] { launch(use_own_copy, 1, 64, 64 * sizeof(float), nullptr, in, out, use, waits); });
  };
  EXPECT_TRUE(contains(error(Use::load, false), "read before cp_async_wait_group: the load"));
  EXPECT_TRUE(contains(error(Use::store, false), "written before cp_async_wait_group: the store"));
  EXPECT_TRUE(
      contains(error(Use::copy, false), "written before cp_async_wait_group: the cp.async"));
  for (const Use use : {Use::load, Use::store, Use::copy}) EXPECT_EQ(error(use, true), "");
}

__global__ void leave_copies_pending(const float* in) {
  ladder::ptx::cp_async<4>(&dynamic_shared<float>()[threadIdx.x], &in[threadIdx.x]);
}

TEST_P(AnyOrder, CopiesEndWithTheirBlock) {
  Array<float> in(64);
  EXPECT_EQ(error_of([&] { launch(leave_copies_pending, 3, 64, 256, nullptr, in); }), "");
}

// --- Kernels that do not end ---------------------------------------------------------------------

enum class Loop { reads, meets, computes };

__global__ void loop(unsigned* ended, Loop kind) {
  if (kind == Loop::reads) {
    while (*static_cast<const volatile unsigned*>(ended) == 0) continue;
  } else if (kind == Loop::meets) {
    while (*ended == 0) __syncthreads();
  } else if (blockIdx.x == 1 && threadIdx.x == 40) {
    unsigned odd = *ended + 1;
    while (odd != 2) odd *= 5;
    *ended = odd;
  }
}
constexpr int kReads = __LINE__ - 9, kMeets = __LINE__ - 7, kComputes = __LINE__ - 4;

TEST_P(AnyOrder, AnEndlessLoopEnds) {
  Array<unsigned> ended(1);
  ladder::host::set_step_limit(100'000);
  const auto error = [&](Loop kind) {
    return error_of([&] { launch(loop, 2, 64, 0, nullptr, ended, kind); });
  };
  for (const auto& [kind, line] : {std::pair{Loop::reads, kReads}, std::pair{Loop::meets, kMeets},
                                   std::pair{Loop::computes, kComputes}}) {
    EXPECT_TRUE(contains(error(kind),
                         "endless loop: the block has taken 100000 steps, the last" + at(line)));
  }
  EXPECT_EQ(error(Loop::computes).find("block (1,0,0) thread (40,0,0): "), 0u);
  ended[0] = 1;
  EXPECT_EQ(error(Loop::meets), "") << "it works after an error";
  ladder::host::set_step_limit(ladder::host::kMostSteps);
}

__global__ void count_to(unsigned* out, unsigned n) {
  for (unsigned i = 0; i < n; ++i) atomicAdd(&out[threadIdx.x], 1u);
}

TEST_P(AnyOrder, EveryBlockHasItsSteps) {
  Array<unsigned> out(32);
  ladder::host::set_step_limit(100'000);
  EXPECT_EQ(error_of([&] { launch(count_to, 100, 32, 0, nullptr, out, 1000u); }), "");
  EXPECT_EQ(out[0], 100'000u);
  EXPECT_TRUE(contains(error_of([&] { launch(count_to, 1, 32, 0, nullptr, out, 100'000u); }),
                       "endless loop"));
  ladder::host::set_step_limit(ladder::host::kMostSteps);
}

// --- Stacks --------------------------------------------------------------------------------------

[[gnu::noinline]] __device__ int descend(int depth) {
  volatile char frame[1000];
  frame[depth % 1000] = static_cast<char>(depth);
  return depth == 0 ? 0 : descend(depth - 1) + frame[depth % 1000];
}
__global__ void recurse(int* out, int depth) {
  if (threadIdx.x == 3) out[0] = descend(depth);
}
__global__ void fill_beyond(int* out) {
  volatile char values[1200 << 10];
  values[0] = 1;
  __syncthreads();
  out[threadIdx.x] = values[0];
}

TEST_P(AnyOrder, AStackThatIsTooSmallIsAnError) {
  Array<int> out(32);
  const auto recursion = [&](int depth) {
    return error_of([&] { run_block(32, recurse, out, depth); });
  };
  const std::string expected = "the local variables take more than 1 MiB: a GPU has 512 KiB";
  EXPECT_EQ(recursion(400), "");
  EXPECT_TRUE(contains(recursion(1 << 20), "block (0,0,0) thread (3,0,0): " + expected));
  EXPECT_TRUE(contains(error_of([&] { run_block(32, fill_beyond, out); }), expected));
  EXPECT_EQ(recursion(400), "") << "it works after an error";
}

}  // namespace

#endif
