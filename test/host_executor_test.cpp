// Tests of the host executor: the CUDA functions kernels use, the order of threads, shared memory,
// and the errors a wrong kernel gets. This file is compiled as kernels are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "host_kernels.hpp"

namespace {

using namespace ladder::test;
using ladder::bfloat16;
using ladder::dynamic_shared;
using ladder::half;
using ladder::launch;

std::string here(unsigned line) { return "(host_executor_test.cpp:" + std::to_string(line) + ":"; }

INSTANTIATE_TEST_SUITE_P(LaneOrder, AnyOrder, testing::Values(0u, 1u, 20240607u));

// --- Index variables -----------------------------------------------------------------------------

struct Indices {
  uint3 thread, block, block_dim, grid_dim;
};

__global__ void record_indices(Indices* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = {threadIdx, blockIdx, blockDim,
                                                                  gridDim};
}

void expect_indices(dim3 grid, dim3 block) {
  Array<Indices> seen(std::size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z);
  launch(record_indices, grid, block, 0, nullptr, seen);
  const Indices* next = seen;
  const auto tuple = [](auto v) { return std::make_tuple(v.x, v.y, v.z); };
  for (unsigned bz = 0; bz < grid.z; ++bz)
    for (unsigned by = 0; by < grid.y; ++by)
      for (unsigned bx = 0; bx < grid.x; ++bx)
        for (unsigned tz = 0; tz < block.z; ++tz)
          for (unsigned ty = 0; ty < block.y; ++ty)
            for (unsigned tx = 0; tx < block.x; ++tx, ++next) {
              ASSERT_EQ(tuple(next->thread), std::make_tuple(tx, ty, tz));
              ASSERT_EQ(tuple(next->block), std::make_tuple(bx, by, bz));
              ASSERT_EQ(tuple(next->block_dim), tuple(block));
              ASSERT_EQ(tuple(next->grid_dim), tuple(grid));
            }
}

TEST_P(AnyOrder, IndexVariablesInOneDimension) { expect_indices(5, 70); }
TEST_P(AnyOrder, IndexVariablesInTwoDimensions) { expect_indices({3, 4}, {7, 5}); }
TEST_P(AnyOrder, IndexVariablesInThreeDimensions) { expect_indices({2, 3, 4}, {5, 3, 2}); }

__global__ void record_turns(unsigned* turns, unsigned* order) {
  order[atomicAdd(turns, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

std::vector<unsigned> order_of_turns(unsigned seed) {
  Array<unsigned> turns(1), order(3 * 64);
  ladder::host::set_lane_order(seed);
  launch(record_turns, 3, 64, 0, nullptr, turns, order);
  ladder::host::set_lane_order(0);
  return {order.begin(), order.end()};
}

TEST(LaneOrder, IsAscendingBySeedZero) {
  std::vector<unsigned> ascending(3 * 64);
  std::iota(ascending.begin(), ascending.end(), 0u);
  EXPECT_EQ(order_of_turns(0), ascending);
}

TEST(LaneOrder, IsRandomInABlockAndRepeatableByASeed) {
  const auto order = order_of_turns(7);
  EXPECT_NE(order, order_of_turns(0));
  EXPECT_NE(order, order_of_turns(8));
  EXPECT_EQ(order, order_of_turns(7));
  for (unsigned block = 0; block < 3; ++block) {
    const std::set<unsigned> threads(order.begin() + block * 64, order.begin() + (block + 1) * 64);
    EXPECT_EQ(threads.size(), 64u);
    EXPECT_EQ(*threads.rbegin() - *threads.begin(), 63u) << "blocks run one after the other";
  }
}

__global__ void record_stack(std::uintptr_t* stacks, bool wait) {
  stacks[threadIdx.x] = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (wait) __syncthreads();
}

TEST_P(AnyOrder, OnlyThreadsThatWaitHaveAStackOfTheirOwn) {
  Array<std::uintptr_t> stacks(64);
  run_block(64, record_stack, stacks, false);
  EXPECT_EQ(std::set<std::uintptr_t>(stacks.begin(), stacks.end()).size(), 1u);
  run_block(64, record_stack, stacks, true);
  EXPECT_EQ(std::set<std::uintptr_t>(stacks.begin(), stacks.end()).size(), 64u);
}

// --- Barriers and shared memory ------------------------------------------------------------------

__global__ void transpose(const int* in, int* out) {
  __shared__ int tile[16][17];
  const unsigned n = gridDim.x * 16, x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[(blockIdx.y * 16 + y) * n + blockIdx.x * 16 + x];
  __syncthreads();
  out[(blockIdx.x * 16 + y) * n + blockIdx.y * 16 + x] = tile[x][y];
}

TEST_P(AnyOrder, BarrierExchangesTiles) {
  Array<int> in(48 * 48), out(48 * 48);
  std::iota(in.begin(), in.end(), 0);
  launch(transpose, dim3(3, 3), dim3(16, 16), 0, nullptr, in, out);
  for (int y = 0; y < 48; ++y)
    for (int x = 0; x < 48; ++x) ASSERT_EQ(out[y * 48 + x], x * 48 + y);
}

// Each round reads what the other end of the block wrote in the round before.
__global__ void reverse_repeatedly(int* data, int rounds) {
  __shared__ int values[256];
  const unsigned t = threadIdx.x;
  int mine = data[t];
  for (int i = 0; i < rounds; ++i) {
    values[t] = mine;
    __syncthreads();
    mine = values[255 - t] + 1;
    __syncthreads();
  }
  data[t] = mine;
}

TEST_P(AnyOrder, BarrierInALoop) {
  Array<int> data(256);
  std::iota(data.begin(), data.end(), 0);
  run_block(256, reverse_repeatedly, data, 21);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(data[i], 255 - i + 21);
}

template <bool Sync>
__global__ void reverse(const float* in, float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = in[threadIdx.x];
  if (Sync) __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
}

template <bool Sync>
bool reverses() {
  Array<float> in(64), out(64);
  std::iota(in.begin(), in.end(), 1.0f);
  run_block(64, reverse<Sync>, in, out);
  bool right = true;
  for (int i = 0; i < 64; ++i) right &= out[i] == in[63 - i];
  return right;
}

__global__ void count_votes(int* out, int threshold) {
  const int vote = static_cast<int>(threadIdx.x) < threshold ? 4 : 0;
  out[3 * threadIdx.x] = __syncthreads_count(vote);
  out[3 * threadIdx.x + 1] = __syncthreads_and(vote) != 0;
  out[3 * threadIdx.x + 2] = __syncthreads_or(vote) != 0;
}

TEST_P(AnyOrder, BarriersThatVote) {
  for (int threshold : {0, 1, 69, 70}) {
    Array<int> out(3 * 70);
    run_block(70, count_votes, out, threshold);
    for (int t = 0; t < 70; ++t) {
      ASSERT_EQ(out[3 * t], threshold);
      ASSERT_EQ(out[3 * t + 1], threshold == 70);
      ASSERT_EQ(out[3 * t + 2], threshold > 0);
    }
  }
}

__global__ void reverse_dynamic(double* data, std::uintptr_t* address) {
  auto* values = dynamic_shared<double>();
  if (threadIdx.x == 0) *address = reinterpret_cast<std::uintptr_t>(values);
  values[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

TEST_P(AnyOrder, DynamicSharedMemory) {
  Array<double> data(100);
  Array<std::uintptr_t> address(1);
  std::iota(data.begin(), data.end(), 0.0);
  launch(reverse_dynamic, 1, 100, 100 * sizeof(double), nullptr, data, address);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(data[i], 99 - i);
  EXPECT_EQ(address[0] % 128, 0u);
}

__global__ void use_most_dynamic_shared(char* last) {
  char* memory = dynamic_shared<char>();
  memory[227 * 1024 - 1] = 42;
  *last = memory[227 * 1024 - 1];
}

TEST(SharedMemory, DynamicUpTo227KiB) {
  Array<char> last(1);
  launch(use_most_dynamic_shared, 1, 1, 227 * 1024, nullptr, last);
  EXPECT_EQ(last[0], 42);
}

__global__ void sum_of_those_that_stay(int* out, unsigned limit) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  if (threadIdx.x >= limit) return;
  atomicAdd(&sum, 1);
  __syncthreads();
  out[threadIdx.x] = sum;
}

TEST_P(AnyOrder, BarrierDoesNotWaitForThreadsThatHaveEnded) {
  for (unsigned limit : {1u, 31u, 32u, 33u, 100u}) {
    Array<int> out(100);
    run_block(100, sum_of_those_that_stay, out, limit);
    for (unsigned t = 0; t < 100; ++t) ASSERT_EQ(out[t], t < limit ? static_cast<int>(limit) : 0);
  }
}

__global__ void barrier_completed_by_an_exit(int* out) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) __syncwarp(1);  // lets the others go first
    return;
  }
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void collective_completed_by_an_exit(unsigned* out) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) __syncwarp(1);
    return;
  }
  out[threadIdx.x] = __ballot_sync(kAllLanes, threadIdx.x != 5);
}

// Lane 0 waits for lane 1, which waits for lane 2, which ends.
__global__ void collectives_behind_an_exit(unsigned* out) {
  if (threadIdx.x == 2) {
    for (int i = 0; i < 3; ++i) __syncwarp(1u << 2);
    return;
  }
  if (threadIdx.x == 1) out[2] = __ballot_sync(0b110, 1);
  out[threadIdx.x] = __ballot_sync(0b011, 1);
}

TEST_P(AnyOrder, TheLastOneToEndReleasesThoseThatWait) {
  Array<int> reached(40);
  run_block(40, barrier_completed_by_an_exit, reached);
  EXPECT_EQ(std::accumulate(reached.begin(), reached.end(), 0), 39);
  Array<unsigned> ballots(32);
  run_block(32, collective_completed_by_an_exit, ballots);
  for (int lane = 1; lane < 32; ++lane) EXPECT_EQ(ballots[lane], kAllLanes & ~1u & ~(1u << 5));
  run_block(3, collectives_behind_an_exit, ballots);
  EXPECT_EQ(ballots[0], 0b011u);
  EXPECT_EQ(ballots[1], 0b011u);
  EXPECT_EQ(ballots[2], 0b010u);
}

// --- Warps ---------------------------------------------------------------------------------------

enum class ShuffleKind { indexed, up, down, exclusive_or };

template <class T>
__global__ void shuffle(ShuffleKind kind, T* out, int amount, int width) {
  const T mine = T(static_cast<float>(threadIdx.x));
  T result{};
  switch (kind) {
    case ShuffleKind::indexed:
      result = __shfl_sync(kAllLanes, mine, amount, width);
      break;
    case ShuffleKind::up:
      result = __shfl_up_sync(kAllLanes, mine, static_cast<unsigned>(amount), width);
      break;
    case ShuffleKind::down:
      result = __shfl_down_sync(kAllLanes, mine, static_cast<unsigned>(amount), width);
      break;
    case ShuffleKind::exclusive_or:
      result = __shfl_xor_sync(kAllLanes, mine, amount, width);
      break;
  }
  out[threadIdx.x] = result;
}

template <class T>
void expect_shuffles() {
  const auto expect = [](ShuffleKind kind, int amount, int width, auto source) {
    Array<T> out(64);
    run_block(64, shuffle<T>, kind, out, amount, width);
    for (int t = 0; t < 64; ++t) {
      const int segment = t / width * width;
      ASSERT_EQ(static_cast<float>(out[t]), static_cast<float>(source(t, segment)))
          << "thread " << t << ", amount " << amount << ", width " << width;
    }
  };
  for (int width : {32, 8, 2}) {
    for (int amount : {0, 1, 3, 16}) {
      expect(ShuffleKind::indexed, amount, width,
             [=](int, int segment) { return segment + amount % width; });
      expect(ShuffleKind::up, amount, width,
             [=](int t, int segment) { return t - amount >= segment ? t - amount : t; });
      expect(ShuffleKind::down, amount, width,
             [=](int t, int segment) { return t + amount < segment + width ? t + amount : t; });
      expect(ShuffleKind::exclusive_or, amount, width,
             [=](int t, int segment) { return (t ^ amount) < segment + width ? t ^ amount : t; });
    }
  }
}

TEST_P(AnyOrder, ShufflesOf32Bits) {
  expect_shuffles<int>();
  expect_shuffles<unsigned>();
  expect_shuffles<float>();
}
TEST_P(AnyOrder, ShufflesOf64Bits) {
  expect_shuffles<double>();
  expect_shuffles<long long>();
}
TEST_P(AnyOrder, ShufflesOf16Bits) {
  expect_shuffles<half>();
  expect_shuffles<bfloat16>();
}

__global__ void shuffle_wide_values(unsigned long long* numbers, __half2* pairs) {
  const unsigned t = threadIdx.x;
  numbers[t] = __shfl_xor_sync(kAllLanes, 0x1234567800000000ull + t, 1);
  pairs[t] = __shfl_xor_sync(kAllLanes, __half2(__float2half(float(t)), __float2half(-1.0f)), 1);
}

TEST(Warp, ShufflesKeepEveryBit) {
  Array<unsigned long long> numbers(32);
  Array<__half2> pairs(32);
  run_block(32, shuffle_wide_values, numbers, pairs);
  for (unsigned t = 0; t < 32; ++t) {
    EXPECT_EQ(numbers[t], 0x1234567800000000ull + (t ^ 1));
    EXPECT_EQ(__half2float(pairs[t].x), static_cast<float>(t ^ 1));
    EXPECT_EQ(__half2float(pairs[t].y), -1.0f);
  }
}

__global__ void sum_by_shuffles(const float* in, float* out, int n) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    sum += in[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kAllLanes, sum, d);
    if (threadIdx.x == 0) *out = sum;
  }
}

TEST_P(AnyOrder, SumByShufflesAndSharedMemory) {
  Array<float> in(5000), out(1);
  std::iota(in.begin(), in.end(), 0.0f);
  run_block(256, sum_by_shuffles, in, out, 5000);
  EXPECT_EQ(out[0], 4999.0f * 5000 / 2);
}

__global__ void vote(unsigned* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  unsigned* mine = out + 5 * threadIdx.x;
  mine[0] = __ballot_sync(kAllLanes, lane % 3 == 0 ? -8 : 0);
  mine[1] = __any_sync(kAllLanes, lane == 31) != 0;
  mine[2] = __any_sync(kAllLanes, lane == 32) != 0;
  mine[3] = __all_sync(kAllLanes, lane < 32) != 0;
  mine[4] = __all_sync(kAllLanes, lane < 31) != 0;
}

TEST_P(AnyOrder, Votes) {
  Array<unsigned> out(64 * 5);
  run_block(64, vote, out);
  for (unsigned t = 0; t < 64; ++t) {
    const std::vector<unsigned> votes(&out[5 * t], &out[5 * t] + 5);
    ASSERT_EQ(votes, (std::vector<unsigned>{0x49249249u, 1, 0, 1, 0}));
  }
}

__global__ void reduce(unsigned* out, int* out_signed) {
  const unsigned value = (threadIdx.x * 7 + 3) % 32 + 0x80000000u;
  const int number = static_cast<int>(threadIdx.x) - 10;
  unsigned* mine = out + 6 * threadIdx.x;
  mine[0] = __reduce_add_sync(kAllLanes, value);
  mine[1] = __reduce_min_sync(kAllLanes, value);
  mine[2] = __reduce_max_sync(kAllLanes, value);
  mine[3] = __reduce_and_sync(kAllLanes, value | 0x100u);
  mine[4] = __reduce_or_sync(kAllLanes, 1u << threadIdx.x);
  mine[5] = __reduce_xor_sync(kAllLanes, 3u << threadIdx.x);
  out_signed[3 * threadIdx.x] = __reduce_add_sync(kAllLanes, number);
  out_signed[3 * threadIdx.x + 1] = __reduce_min_sync(kAllLanes, number);
  out_signed[3 * threadIdx.x + 2] = __reduce_max_sync(kAllLanes, number);
}

TEST_P(AnyOrder, Reductions) {
  Array<unsigned> out(32 * 6);
  Array<int> out_signed(32 * 3);
  run_block(32, reduce, out, out_signed);
  for (unsigned t = 0; t < 32; ++t) {
    const std::vector<unsigned> results(&out[6 * t], &out[6 * t] + 6);
    ASSERT_EQ(results,
              (std::vector<unsigned>{496, 0x80000000u, 0x8000001fu, 0x80000100u, 0xffffffffu, 1}));
    const std::vector<int> numbers(&out_signed[3 * t], &out_signed[3 * t] + 3);
    ASSERT_EQ(numbers, (std::vector<int>{176, -10, 21}));
  }
}

__global__ void ballot_of_all(unsigned* out) {
  out[2 * threadIdx.x] = __activemask();
  out[2 * threadIdx.x + 1] = __ballot_sync(kAllLanes, 1);
}

TEST_P(AnyOrder, LastWarpMayBePartial) {
  Array<unsigned> out(2 * 40);
  run_block(40, ballot_of_all, out);
  for (unsigned t = 0; t < 40; ++t) {
    ASSERT_EQ(out[2 * t], t < 32 ? 0xffffffffu : 0xffu);
    ASSERT_EQ(out[2 * t + 1], t < 32 ? 0xffffffffu : 0xffu);
  }
}

__global__ void halves_of_a_warp(unsigned* out) {
  const unsigned t = threadIdx.x;
  if (t < 16) {
    out[t] = __shfl_sync(0x0000ffffu, t, 3);
  } else {
    unsigned value = __shfl_xor_sync(0xffff0000u, t, 1);
    out[t] = __shfl_xor_sync(0xffff0000u, value, 2);
  }
}

TEST_P(AnyOrder, PartsOfAWarpGoTheirOwnWays) {
  Array<unsigned> out(32);
  run_block(32, halves_of_a_warp, out);
  for (unsigned t = 0; t < 32; ++t) ASSERT_EQ(out[t], t < 16 ? 3 : t ^ 3);
}

// Lane i gets a number from lane i - 1 and gives the next one to lane i + 1: the masks with which
// lanes wait at one time overlap.
__global__ void chain(int* out) {
  const unsigned t = threadIdx.x;
  int value = 0;
  if (t > 0) value = __shfl_sync(3u << (t - 1), 0, static_cast<int>(t) - 1);
  value += 1;
  if (t < 31) __shfl_sync(3u << t, value, static_cast<int>(t));
  out[t] = value;
}

TEST_P(AnyOrder, MasksMayOverlapOneAfterTheOther) {
  Array<int> out(32);
  run_block(32, chain, out);
  for (int t = 0; t < 32; ++t) ASSERT_EQ(out[t], t + 1);
}

__global__ void exchange_in_warp(float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 31];
}

TEST_P(AnyOrder, SyncwarpOrdersSharedMemory) {
  Array<float> out(64);
  run_block(64, exchange_in_warp, out);
  for (unsigned t = 0; t < 64; ++t) ASSERT_EQ(out[t], static_cast<float>(t ^ 31));
}

// --- Atomics -------------------------------------------------------------------------------------

template <class T>
__global__ void add_atomically(T* sum, T* others) {
  __shared__ T local;
  if (threadIdx.x == 0) local = T(0.0f);
  __syncthreads();
  atomicAdd(&local, T(1.0f));
  __syncthreads();
  if (threadIdx.x == 0) others[blockIdx.x] = atomicAdd(sum, local);
}

template <class T>
void expect_atomic_sum() {
  Array<T> sum(1), before(3);
  launch(add_atomically<T>, 3, 70, 0, nullptr, sum, before);
  EXPECT_EQ(static_cast<float>(sum[0]), 210.0f);
  std::set<float> all;
  for (const T& each : before) all.insert(static_cast<float>(each));
  EXPECT_EQ(all, (std::set<float>{0, 70, 140})) << "in any order of the blocks";
}

TEST_P(AnyOrder, AtomicAdd) {
  expect_atomic_sum<int>();
  expect_atomic_sum<unsigned>();
  expect_atomic_sum<unsigned long long>();
  expect_atomic_sum<float>();
  expect_atomic_sum<double>();
  expect_atomic_sum<half>();
  expect_atomic_sum<bfloat16>();
}

__global__ void other_atomics(int* a, unsigned* u, float* f, unsigned long long* w) {
  const int t = static_cast<int>(threadIdx.x);
  const auto ut = threadIdx.x;
  atomicSub(&a[0], 2);
  atomicMin(&a[1], 5 - t);
  atomicMax(&a[2], 5 - t);
  atomicOr(&u[0], 1u << ut % 32);
  atomicAnd(&u[1], ~(1u << ut % 32));
  atomicXor(&u[2], 1u << ut % 3);
  atomicInc(&u[3], 9);  // 0, 1, .. 9, 0, ..
  atomicDec(&u[4], 9);  // 0, 9, 8, .. 0, ..
  atomicMax(&u[5], ut + 0x80000000u);
  u[6 + ut] = atomicExch(&u[5 + 32], ut + 1);
  if (ut == 7) f[1] = atomicExch(&f[0], 2.5f);
  atomicMax(&w[0], static_cast<unsigned long long>(ut) << 40);
  if (atomicCAS(&a[3], 0, t + 1) == 0) atomicAdd(&a[4], 1);
}

TEST_P(AnyOrder, OtherAtomics) {
  Array<int> a(5);
  Array<unsigned> u(38);
  Array<float> f(2);
  Array<unsigned long long> w(1);
  u[1] = 0xf0f0f0f0u;
  f[0] = -1.0f;
  run_block(31, other_atomics, a, u, f, w);
  EXPECT_EQ(a[0], -62);
  EXPECT_EQ(a[1], -25);
  EXPECT_EQ(a[2], 5);
  EXPECT_EQ(u[0], 0x7fffffffu);
  EXPECT_EQ(u[1], 0x80000000u);
  EXPECT_EQ(u[2], 1u) << "bit 0 was flipped 11 times, bits 1 and 2 ten times";
  EXPECT_EQ(u[3], 1u);
  EXPECT_EQ(u[4], 9u);
  EXPECT_EQ(u[5], 0x8000001eu);
  std::multiset<unsigned> exchanged(&u[6], &u[6] + 31);
  exchanged.insert(u[37]);
  for (unsigned i = 0; i <= 31; ++i) EXPECT_EQ(exchanged.count(i), 1u) << i;
  EXPECT_EQ(f[0], 2.5f);
  EXPECT_EQ(f[1], -1.0f);
  EXPECT_EQ(w[0], 30ull << 40);
  EXPECT_TRUE(a[3] >= 1 && a[3] <= 31);
  EXPECT_EQ(a[4], 1) << "one thread wins";
}

__global__ void add_pairs(__half2* h, __nv_bfloat162* b) {
  atomicAdd(h, __half2(__float2half(1.0f), __float2half(2.0f)));
  atomicAdd(b, __nv_bfloat162(__float2bfloat16(1.0f), __float2bfloat16(2.0f)));
}

TEST(Atomics, AddPairsOfHalves) {
  Array<__half2> h(1);
  Array<__nv_bfloat162> b(1);
  run_block(10, add_pairs, h, b);
  EXPECT_EQ(__half2float(h[0].x), 10.0f);
  EXPECT_EQ(__half2float(h[0].y), 20.0f);
  EXPECT_EQ(__bfloat162float(b[0].x), 10.0f);
  EXPECT_EQ(__bfloat162float(b[0].y), 20.0f);
}

__global__ void add_float4(float4* sums) { atomicAdd(sums, make_float4(1, 2, 3, 4)); }

TEST(Atomics, AddVectorsOfFloats) {
  Array<float4> sums(1);
  run_block(10, add_float4, sums);
  EXPECT_EQ(sums[0].x, 10.0f);
  EXPECT_EQ(sums[0].y, 20.0f);
  EXPECT_EQ(sums[0].z, 30.0f);
  EXPECT_EQ(sums[0].w, 40.0f);
}

// --- Arithmetic ----------------------------------------------------------------------------------

template <class T>
__global__ void half_arithmetic(float* out) {
  const T a(1.5f), b(-2.25f);
  int i = 0;
  const auto put = [&](auto value) { out[i++] = static_cast<float>(value); };
  put(a + b);
  put(a - b);
  put(a * b);
  put(a / b);
  put(-a);
  put(__hfma(a, b, T(4.0f)));
  put(__hmax(a, b));
  put(__habs(b));
  put(a > b ? 1.0f : 0.0f);
  put(hsqrt(T(2.25f)));
  put(hrcp(T(4.0f)));
  put(hexp(T(0.0f)));
  put(hfloor(b));
  put(static_cast<T>(static_cast<int>(T(7.0f))));
  T sum = a;
  sum += b;
  put(sum);
  put(__ldg(&a));
}

TEST(Arithmetic, OfHalves) {
  const std::vector<float> expected = {-0.75f, 3.75f, -3.375f, -2.0f / 3, -1.5f, 0.625f,
                                       1.5f,   2.25f, 1.0f,    1.5f,      0.25f, 1.0f,
                                       -3.0f,  7.0f,  -0.75f,  1.5f};
  const auto expect = [&](auto kernel, float eps) {
    Array<float> out(expected.size());
    run_block(1, kernel, out);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(std::abs(out[i] - expected[i]), eps * std::abs(expected[i])) << i;
    }
  };
  expect(half_arithmetic<half>, 0x1p-11f);
  expect(half_arithmetic<bfloat16>, 0x1p-8f);
}

__global__ void conversions(float* out) {
  out[0] = __half2float(__float2half(1.0f + 0x1p-11f));         // a tie, to even
  out[1] = __half2float(__float2half(1.0f + 3 * 0x1p-11f));     // a tie, to even
  out[2] = __half2float(__float2half(70000.0f));                // too big
  out[3] = __half2float(__float2half(0x1p-24f));                // the smallest denormal
  out[4] = __bfloat162float(__float2bfloat16(1.0f + 0x1p-8f));  // a tie, to even
  out[5] = __bfloat162float(__float2bfloat16(1.0f + 3 * 0x1p-8f));
  out[6] = __bfloat162float(__float2bfloat16(70000.0f));
  const __half2 pair = __floats2half2_rn(3.0f, 5.0f);
  const float2 floats = __half22float2(__hfma2(pair, pair, pair));
  out[7] = floats.x;
  out[8] = floats.y;
  // fused: the product's lowest bit is lost if it is rounded before the addition
  const half x = __float2half(1.0f + 0x1p-10f);
  out[9] = __half2float(__hfma(x, x, __float2half(-1.0f - 0x1p-9f)));
}

TEST(Arithmetic, Conversions) {
  Array<float> out(10);
  run_block(1, conversions, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 1.0f + 0x1p-9f);
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_EQ(out[3], 0x1p-24f);
  EXPECT_EQ(out[4], 1.0f);
  EXPECT_EQ(out[5], 1.0f + 0x1p-6f);
  EXPECT_EQ(out[6], 70144.0f);
  EXPECT_EQ(out[7], 12.0f);
  EXPECT_EQ(out[8], 30.0f);
  EXPECT_EQ(out[9], 0x1p-20f);
}

TEST(Arithmetic, Integers) {
  EXPECT_EQ(__popc(0xf0f0u), 8);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(-1), 0);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__brev(0x00000003u), 0xc0000000u);
  EXPECT_EQ(__brev(0x12345678u), 0x1e6a2c48u);
  EXPECT_EQ(__mulhi(1 << 30, -8), -2);
  EXPECT_EQ(__umulhi(1u << 31, 6), 3u);
  EXPECT_EQ(min(3, -4), -4);
  EXPECT_EQ(max(3u, 5u), 5u);
}

TEST(Arithmetic, Floats) {
  const float nan = std::nanf("");
  EXPECT_EQ(max(nan, 1.0f), 1.0f);
  EXPECT_EQ(min(1.0f, nan), 1.0f);
  EXPECT_EQ(max(2.0f, 1.0), 2.0);
  EXPECT_FLOAT_EQ(rsqrtf(4.0f), 0.5f);
  EXPECT_FLOAT_EQ(__expf(1.0f), 2.7182817f);
  EXPECT_FLOAT_EQ(__logf(10.0f), 2.3025851f);
  EXPECT_FLOAT_EQ(__fdividef(1.0f, 3.0f), 1.0f / 3);
  EXPECT_EQ(__fmaf_rn(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f - 0x1p-11f), 0x1p-24f);
  EXPECT_EQ(__frcp_rn(8.0f), 0.125f);
  EXPECT_EQ(__saturatef(-3.0f), 0.0f);
  EXPECT_EQ(__saturatef(nan), 0.0f);
  EXPECT_EQ(__saturatef(3.0f), 1.0f);
  EXPECT_EQ(__int_as_float(0x3f800000), 1.0f);
  EXPECT_EQ(__float_as_int(-0.0f), static_cast<int>(0x80000000u));
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rz(-2.5f), -2);
  EXPECT_EQ(__float2int_rd(-2.5f), -3);
  EXPECT_EQ(__float2int_ru(2.1f), 3);
  EXPECT_EQ(__float2int_rn(1e20f), 2147483647);
  EXPECT_EQ(__float2int_rn(nan), 0);
}

__global__ void cached_copy(const float4* in, float4* out) {
  const unsigned t = threadIdx.x;
  if (t % 3 == 0) __stcs(&out[t], __ldcs(&in[t]));
  if (t % 3 == 1) __stcg(&out[t], __ldcg(&in[t]));
  if (t % 3 == 2) __stwt(&out[t], __ldg(&in[t]));
}

TEST(Arithmetic, LoadsAndStoresWithHints) {
  Array<float4> in(30), out(30);
  for (int i = 0; i < 30; ++i) in[i] = make_float4(1.0f * i, 2.0f * i, 3.0f * i, 4.0f * i);
  run_block(30, cached_copy, in, out);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(out[i].x, 1.0f * i);
    EXPECT_EQ(out[i].w, 4.0f * i);
  }
}

// --- Errors --------------------------------------------------------------------------------------

/// After any error the executor works, with as many stacks as a block can need.
void expect_works() {
  EXPECT_TRUE(reverses<true>());
  Array<std::uintptr_t> stacks(1024);
  run_block(1024, record_stack, stacks, true);
  EXPECT_EQ(std::set<std::uintptr_t>(stacks.begin(), stacks.end()).size(), 1024u);
}

constexpr unsigned kDeadlockLine = __LINE__ + 3;
__global__ void barrier_against_shuffle(float* out) {
  if (threadIdx.x < 12) {
    __syncthreads();
  } else if (threadIdx.x < 31) {
    out[threadIdx.x] = __shfl_sync(kAllLanes, 1.0f, 0);
  }
}

TEST_P(AnyOrder, DeadlockIsAnError) {
  Array<float> out(32);
  const auto error =
      error_of([&] { launch(barrier_against_shuffle, dim3(2, 2), 32, 0, nullptr, out); });
  EXPECT_TRUE(contains(error, ",0) thread (0,0,0): deadlock: "));
  EXPECT_TRUE(contains(error, "12 threads wait at __syncthreads " + here(kDeadlockLine)));
  EXPECT_TRUE(contains(
      error, "19 threads wait at __shfl_sync with mask 0xffffffff " + here(kDeadlockLine + 2)));
  EXPECT_TRUE(contains(error, "1 have ended"));
  expect_works();
}

__global__ void second_block_deadlocks() {
  if (blockIdx.y == 1 && threadIdx.y == 1)
    __syncwarp(kAllLanes);
  else
    __syncthreads();
}

TEST_P(AnyOrder, ErrorsNameBlockAndThread) {
  const auto error =
      error_of([] { launch(second_block_deadlocks, dim3(1, 3), dim3(4, 4), 0, nullptr); });
  EXPECT_EQ(error.find("block (0,1,0) thread (0,0,0): deadlock: "), 0u) << error;
  expect_works();
}

constexpr unsigned kTwoBarriersLine = __LINE__ + 3;
__global__ void two_barriers() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_P(AnyOrder, DifferentBarriersAreAnError) {
  const auto error = error_of([] { run_block(64, two_barriers); });
  EXPECT_EQ(error.find("block (0,0,0) thread ("), 0u) << error;
  EXPECT_TRUE(contains(error, "threads of one block meet at different barriers"));
  EXPECT_TRUE(contains(error, "__syncthreads " + here(kTwoBarriersLine)));
  EXPECT_TRUE(contains(error, "__syncthreads " + here(kTwoBarriersLine + 2)));
  expect_works();
}

// clang-format off
__global__ void two_barriers_on_a_line() { if (threadIdx.x) __syncthreads(); else __syncthreads(); }
// clang-format on

TEST_P(AnyOrder, DifferentBarriersOnOneLineAreAnError) {
  EXPECT_TRUE(contains(error_of([] { run_block(2, two_barriers_on_a_line); }),
                       "meet at different barriers"));
  expect_works();
}

__global__ void masks_disagree(int* out) {
  const unsigned mask = threadIdx.x < 16 ? 0xffffffffu : 0xffff00ffu;
  out[threadIdx.x] = __shfl_xor_sync(mask, 1, 1);
}

TEST_P(AnyOrder, DisagreeingMasksAreAnError) {
  Array<int> out(32);
  const auto error = error_of([&] { run_block(32, masks_disagree, out); });
  EXPECT_EQ(error.find("block (0,0,0) thread (0,0,0): lanes disagree on the mask"), 0u) << error;
  EXPECT_TRUE(contains(error, "__shfl_xor_sync with mask 0xffffffff (host_executor_test.cpp:"));
  EXPECT_TRUE(contains(error, "thread (16,0,0) at __shfl_xor_sync with mask 0xffff00ff"));
  expect_works();
}

__global__ void operations_disagree(int* out) {
  out[threadIdx.x] =
      threadIdx.x == 9 ? __shfl_up_sync(kAllLanes, 1, 1) : __shfl_down_sync(kAllLanes, 1, 1);
}

TEST_P(AnyOrder, DisagreeingOperationsAreAnError) {
  Array<int> out(32);
  const auto error = error_of([&] { run_block(32, operations_disagree, out); });
  EXPECT_EQ(error.find("block (0,0,0) thread (9,0,0): lanes disagree on the operation"), 0u)
      << error;
  EXPECT_TRUE(contains(error, "this one is at __shfl_up_sync"));
  EXPECT_TRUE(contains(error, "thread (0,0,0) at __shfl_down_sync"));
  expect_works();
}

constexpr unsigned kOwnMaskLine = __LINE__ + 2;
__global__ void not_in_own_mask(unsigned* out) {
  if (threadIdx.x == 5) out[0] = __ballot_sync(0xffu & ~(1u << 5), 1);
}

TEST_P(AnyOrder, CallerOutsideItsMaskIsAnError) {
  Array<unsigned> out(1);
  const auto error = error_of([&] { run_block(32, not_in_own_mask, out); });
  EXPECT_EQ(error.find("block (0,0,0) thread (5,0,0): __ballot_sync with mask 0x000000df " +
                       here(kOwnMaskLine)),
            0u)
      << error;
  EXPECT_TRUE(contains(error, "not in its own mask"));
  expect_works();
}

__global__ void read_lane(int* out, int lane) {
  if (threadIdx.x % 32 < 8) out[threadIdx.x] = __shfl_sync(0xffu, 1, threadIdx.x == 3 ? lane : 0);
}

TEST_P(AnyOrder, ReadingALaneThatDoesNotTakePartIsAnError) {
  Array<int> out(32);
  run_block(32, read_lane, out, 7);
  const auto error = error_of([&] { run_block(32, read_lane, out, 8); });
  EXPECT_EQ(error.find("block (0,0,0) thread (3,0,0): __shfl_sync with mask 0x000000ff"), 0u)
      << error;
  EXPECT_TRUE(contains(error, "reads lane 8, which does not take part"));
  EXPECT_TRUE(contains(error_of([&] { run_block(4, read_lane, out, 5); }), "reads lane 5"))
      << "a lane beyond the end of the block";
  expect_works();
}

__global__ void throw_from_thread_2() {
  __syncwarp();
  if (threadIdx.x == 2) throw std::out_of_range("far out");
  __syncthreads();
}

TEST_P(AnyOrder, AnExceptionOfTheKernelIsAnError) {
  const auto error = error_of([] { run_block(32, throw_from_thread_2); });
  EXPECT_EQ(error, "block (0,0,0) thread (2,0,0): the kernel threw: far out");
  expect_works();
}

__global__ void lack_memory() {
  if (threadIdx.x == 2) throw std::bad_alloc();
}

TEST_P(AnyOrder, ALackOfMemoryIsNotTheKernelsException) {
  const auto error = error_of([] { run_block(32, lack_memory); });
  EXPECT_EQ(error, "block (0,0,0) thread (2,0,0): out of memory on the host executor");
}

__global__ void do_nothing() {}

TEST(Launch, RefusesWhatAGpuRefuses) {
  const auto error_with = [](dim3 grid, dim3 block, std::size_t shared = 0) {
    return error_of([&] { launch(do_nothing, grid, block, shared, nullptr); });
  };
  EXPECT_EQ(error_with(1, 1024), "");
  EXPECT_EQ(error_with(1, dim3(2, 8, 64)), "");
  EXPECT_EQ(error_with(1, 1, 227 * 1024), "");
  EXPECT_TRUE(contains(error_with(1, 1025), "1 to 1024 threads, not (1025,1,1)"));
  EXPECT_TRUE(contains(error_with(1, dim3(32, 33)), "1 to 1024 threads, not (32,33,1)"));
  EXPECT_TRUE(contains(error_with(1, dim3(1u << 31, 2, 1)), "1 to 1024 threads"));
  EXPECT_TRUE(contains(error_with(1, 0), "1 to 1024 threads"));
  EXPECT_TRUE(contains(error_with(1, dim3(1, 1, 65)), "at most 64 threads along z, not 65"));
  EXPECT_TRUE(contains(error_with(1, 1, 227 * 1024 + 1), "227 KiB"));
  EXPECT_TRUE(contains(error_with(dim3(1, 65536), 1), "65535"));
}

// --- Size ----------------------------------------------------------------------------------------

TEST_P(AnyOrder, BlocksOf1024Threads) {
  Array<int> in(1024), out(1024);
  std::iota(in.begin(), in.end(), 0);
  const auto kernel = +[](const int* from, int* to) {
    int* values = dynamic_shared<int>();
    values[threadIdx.y * 32 + threadIdx.x] = from[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    to[threadIdx.y * 32 + threadIdx.x] = values[threadIdx.x * 32 + threadIdx.y];
  };
  launch(kernel, 1, dim3(32, 32), 4096, nullptr, in, out);
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 32; ++x) ASSERT_EQ(out[y * 32 + x], x * 32 + y);
}

template <int kBytes>
__global__ void fill_local_array(int* out) {
  volatile int values[kBytes / sizeof(int)];
  constexpr int kPage = 4096 / sizeof(int);
  for (int i = 0; i < kBytes / 4096; ++i) values[i * kPage] = static_cast<int>(threadIdx.x) + i;
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < kBytes / 4096; ++i) sum += values[i * kPage];
  out[threadIdx.x] = sum;
}

template <int kBytes>
void expect_room(unsigned threads) {
  Array<int> out(threads);
  run_block(threads, fill_local_array<kBytes>, out);
  constexpr int kPages = kBytes / 4096;
  for (int t = 0; t < static_cast<int>(threads); ++t) {
    ASSERT_EQ(out[t], kPages * t + kPages * (kPages - 1) / 2);
  }
}

TEST_P(AnyOrder, LocalArraysOf64KiB) { expect_room<64 << 10>(1024); }
TEST_P(AnyOrder, LocalArraysOf512KiB) { expect_room<512 << 10>(64); }

__global__ void add(const float* a, const float* b, float* c, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

TEST_P(AnyOrder, ManyBlocks) {
  constexpr unsigned kSize = (1 << 20) + 17;
  Array<float> a(kSize), b(kSize), c(kSize);
  std::iota(a.begin(), a.end(), 0.0f);
  std::iota(b.begin(), b.end(), 1.0f);
  launch(add, (kSize + 255) / 256, 256, 0, nullptr, a, b, c, kSize);
  for (unsigned i = 0; i < kSize; ++i) ASSERT_EQ(c[i], a[i] + b[i]);
}

TEST(Memory, AllocationsAreAlignedAndApart) {
  std::vector<std::unique_ptr<Array<char>>> arrays;
  for (std::size_t size : {1, 255, 256, 257, 100000}) {
    arrays.push_back(std::make_unique<Array<char>>(size));
  }
  for (auto& a : arrays) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a->begin()) % 256, 0u);
    for (auto& b : arrays) EXPECT_TRUE(a == b || b->begin() >= a->end() || b->end() <= a->begin());
  }
}

#if !defined(__SANITIZE_ADDRESS__)

TEST(Memory, TooMuchIsAnError) {
  EXPECT_THROW(ladder::host::allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(ladder::host::allocate(SIZE_MAX / 2), std::bad_alloc);
}

#else  // what AddressSanitizer is for

__global__ void write_at(float* out, unsigned i) { out[i] = 1.0f; }

__global__ void write_static_shared_at(unsigned i) {
  __shared__ float values[16];
  atomicExch(&values[i], 1.0f);
}

__global__ void write_dynamic_shared_at(unsigned i) { dynamic_shared<float>()[i] = 1.0f; }

TEST(Memory, AccessesOutOfBoundsAreFound) {
  Array<float> out(16);
  run_block(1, write_at, out, 15u);
  EXPECT_DEATH(run_block(1, write_at, out, 16u), "heap-buffer-overflow");
  run_block(1, write_static_shared_at, 15u);
  EXPECT_DEATH(run_block(1, write_static_shared_at, 16u), "index 16 out of bounds|overflow");
  launch(write_dynamic_shared_at, 1, 1, 64, nullptr, 15u);
  EXPECT_DEATH(launch(write_dynamic_shared_at, 1, 1, 64, nullptr, 16u), "use-after-poison");
  launch(write_dynamic_shared_at, 1, 1, 68, nullptr, 16u);
}

#endif

}  // namespace
