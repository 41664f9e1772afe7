// Exact counts of kernels whose counts theory gives. Every expected number is worked out here, from
// the addresses that the lanes of a warp access, and holds under every order of the threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "device/vector.hpp"
#include "host_executor/counting.hpp"
#include "host_kernels.hpp"

#if !defined(__SANITIZE_ADDRESS__)  // whose instrumentation takes the place of the counters'

namespace {

using namespace ladder::test;
using ladder::Access;
using ladder::Counters;
using ladder::half;
using ladder::launch;
using ladder::Requests;
using ladder::Space;

template <class... P, class... A>
Counters count(void (*kernel)(P...), dim3 grid, dim3 block, A&&... args) {
  return ladder::host::count(
      [&] { launch(kernel, grid, block, 0, nullptr, std::forward<A>(args)...); });
}

void expect_requests(const Requests& counted, std::uint64_t requests, std::uint64_t units,
                     std::uint64_t ideal) {
  EXPECT_EQ(counted.requests, requests);
  EXPECT_EQ(counted.units, units);
  EXPECT_EQ(counted.ideal, ideal);
}

// --- Global memory -------------------------------------------------------------------------------

__global__ void strided_copy(const float* in, float* out, unsigned stride) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i * stride];
}

TEST_P(AnyOrder, StridedCopyTouchesASectorPerEightFloatsOfItsSpan) {
  constexpr unsigned n = 1024, warps = n / 32;
  Array<float> in(n * 32), out(n);
  for (const unsigned stride : {1u, 2u, 4u, 8u, 32u}) {
    const Counters counters = count(strided_copy, n / 128, 128, in, out, stride);
    expect_requests(counters.global_load, warps, warps * std::min(32u, 4 * stride), warps * 4);
    expect_requests(counters.global_store, warps, warps * 4, warps * 4);
    EXPECT_EQ(counters.global_load.bytes, n * sizeof(float));
    EXPECT_EQ(counters.mean_active_lanes(), 32);
    EXPECT_EQ(counters.moved_bytes(), 32.0 * warps * (std::min(32u, 4 * stride) + 4));
  }
}

__global__ void offset_copy(const float* in, float* out, unsigned offset) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i + offset];
}

TEST_P(AnyOrder, OffsetCopyTouchesAFifthSectorUnlessItIsAligned) {
  constexpr unsigned n = 1024, warps = n / 32;
  Array<float> in(n + 32), out(n);
  for (unsigned offset = 0; offset <= 16; ++offset) {
    const Counters counters = count(offset_copy, n / 256, 256, in, out, offset);
    expect_requests(counters.global_load, warps, warps * (offset % 8 == 0 ? 4 : 5), warps * 4);
    expect_requests(counters.global_store, warps, warps * 4, warps * 4);
  }
}

template <class T>
__global__ void copy(const T* in, T* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}

template <class T>
void expect_copy(unsigned sectors) {
  Array<T> in(256), out(256);
  const Counters counters = count(copy<T>, 2, 128, in, out);
  expect_requests(counters.global_load, 8, 8 * sectors, 8 * sectors);
  expect_requests(counters.global_store, 8, 8 * sectors, 8 * sectors);
  ASSERT_EQ(counters.lines.size(), 2u);
  for (const ladder::LineCounters& line : counters.lines) EXPECT_EQ(line.width, sizeof(T));
}

TEST_P(AnyOrder, WiderElementsTakeFewerRequestsForTheSameSectors) {
  expect_copy<char>(1);
  expect_copy<half>(2);
  expect_copy<float>(4);
  expect_copy<double>(8);
  expect_copy<float2>(8);
  expect_copy<float4>(16);
}

__global__ void vector_copy(const half* in, half* out) {
  using Vec = ladder::Vec128<half>;
  const unsigned i = threadIdx.x * Vec::size;
  Vec::load(in + i).store(out + i);
}

TEST(Counters, AVec128IsOneAccessOf16BytesInTheLineOfTheKernel) {
  Array<half> in(512), out(512);
  const Counters counters = count(vector_copy, 1, 64, in, out);
  expect_requests(counters.global_load, 2, 2 * 16, 2 * 16);
  expect_requests(counters.global_store, 2, 2 * 16, 2 * 16);
}

__global__ void one_value(const float* in, float* out) { out[threadIdx.x] = in[7]; }

TEST_P(AnyOrder, AValueForAllLanesIsOneSector) {
  Array<float> in(8), out(64);
  expect_requests(count(one_value, 1, 64, in, out).global_load, 2, 2, 2);
}

__global__ void copy_first(const float* in, float* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

TEST_P(AnyOrder, TheLastWarpCountsItsActiveLanes) {
  constexpr unsigned n = 1000;  // 31 warps and 8 lanes
  Array<float> in(n), out(n);
  const Counters counters = count(copy_first, 8, 128, in, out, n);
  expect_requests(counters.global_load, 32, 31 * 4 + 1, 31 * 4 + 1);
  EXPECT_EQ(counters.global_load.lanes, n);
}

// --- Shared memory -------------------------------------------------------------------------------

template <int kPitch>
__global__ void transpose_tile(float* out) {
  __shared__ float tile[32][kPitch];
  tile[threadIdx.y][threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

TEST_P(AnyOrder, AColumnOfATileIsA32WayConflictUnlessItIsPadded) {
  Array<float> out(1024);
  const Counters conflict = count(transpose_tile<32>, 1, dim3(32, 32), out);
  expect_requests(conflict.shared_store, 32, 32, 32);
  expect_requests(conflict.shared_load, 32, 32 * 32, 32);
  EXPECT_EQ(conflict.shared_load.excess(), 32);
  const Counters padded = count(transpose_tile<33>, 1, dim3(32, 32), out);
  expect_requests(padded.shared_load, 32, 32, 32);
  EXPECT_EQ(padded.shared_load.excess(), 1);
  EXPECT_EQ(padded.barriers, 1u);
}

/// Elements of 1 to 16 bytes that the lanes of a warp access.
struct Pattern {
  Access access;
  unsigned width, lanes;  // bytes; a bit for every lane that takes part
  unsigned element[32];
};

template <class T>
__global__ void access_shared(Pattern pattern, T* out) {
  __shared__ uint4 memory[1024];
  for (unsigned i = threadIdx.x; i < 1024; i += 32) memory[i] = {};
  __syncwarp();
  T& element = reinterpret_cast<T*>(memory)[pattern.element[threadIdx.x]];
  if (!(pattern.lanes >> threadIdx.x & 1)) return;
  if (pattern.access == Access::load) {
    out[threadIdx.x] = element;
  } else if (pattern.access == Access::store) {
    element = T{};
  } else if constexpr (std::is_same_v<T, unsigned>) {
    atomicAdd(&element, 1u);
  }
}

Requests count_pattern(const Pattern& pattern) {
  const auto of_type = [&]<class T>(T) {
    Array<T> out(32);
    return count(access_shared<T>, 1, 32, pattern, out);
  };
  Counters counters;
  switch (pattern.width) {
    case 1:
      counters = of_type(std::uint8_t{});
      break;
    case 2:
      counters = of_type(std::uint16_t{});
      break;
    case 4:
      counters = of_type(0u);
      break;
    case 8:
      counters = of_type(uint2{});
      break;
    default:
      counters = of_type(uint4{});
  }
  Requests requests = counters.of(Space::shared, pattern.access);
  if (pattern.access == Access::store) {  // less those that fill the memory: 32 of 4 wavefronts
    requests.requests -= 32;
    requests.units -= 32 * 4;
  }
  return requests;
}

/// An H100's own counts, for patterns of every kind and random ones.
TEST(Counters, WavefrontsAreThoseOfAnH100) {
  std::ifstream file(LADDER_SOURCE_DIR "/test/h100_wavefronts.csv");
  std::string line;
  std::getline(file, line);
  ASSERT_EQ(line, "access,width,mask,wavefronts,elements");
  int patterns = 0;
  for (; std::getline(file, line); ++patterns) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    Pattern pattern{};
    std::string access;
    std::uint64_t wavefronts;
    fields >> access >> pattern.width >> std::hex >> pattern.lanes >> std::dec >> wavefronts;
    for (unsigned& element : pattern.element) fields >> element;
    ASSERT_TRUE(fields) << line;
    pattern.access = access == "load"    ? Access::load
                     : access == "store" ? Access::store
                                         : Access::atomic;
    const Requests counted = count_pattern(pattern);
    EXPECT_EQ(counted.requests, 1u) << line;
    EXPECT_EQ(counted.units, wavefronts) << line;
  }
  EXPECT_GT(patterns, 300);
}

void expect_wavefronts(unsigned width, unsigned (*element)(unsigned lane), std::uint64_t expected,
                       std::uint64_t ideal) {
  Pattern pattern{.access = Access::load, .width = width, .lanes = kAllLanes, .element = {}};
  for (unsigned i = 0; i < 32; ++i) pattern.element[i] = element(i);
  expect_requests(count_pattern(pattern), 1, expected, ideal);
}

TEST_P(AnyOrder, WavefrontsByWidthAndPattern) {
  const auto same = [](unsigned) { return 3u; };
  const auto next = [](unsigned i) { return i; };
  const auto every_second = [](unsigned i) { return 2 * i; };
  const auto every_eighth = [](unsigned i) { return 8 * i; };
  const auto pairs = [](unsigned i) { return i / 2; };
  expect_wavefronts(1, next, 1, 1);  // four lanes to a word
  expect_wavefronts(2, next, 1, 1);
  expect_wavefronts(4, same, 1, 1);
  expect_wavefronts(4, next, 1, 1);
  expect_wavefronts(4, pairs, 1, 1);
  expect_wavefronts(4, every_second, 2, 1);
  expect_wavefronts(4, every_eighth, 8, 1);
  expect_wavefronts(8, next, 2, 2);  // two halves of a warp, each without a conflict
  expect_wavefronts(8, pairs, 1, 1);
  expect_wavefronts(8, same, 1, 1);
  expect_wavefronts(8, every_second, 4, 2);
  expect_wavefronts(16, next, 4, 4);  // four quarters
  expect_wavefronts(16, pairs, 2, 2);
  expect_wavefronts(16, same, 2, 2);
  expect_wavefronts(16, every_second, 8, 4);
  expect_wavefronts(16, every_eighth, 32, 4);
}

__global__ void add_to(float* sums, int* numbers, unsigned divisor) {
  __shared__ int shared[32];
  shared[threadIdx.x] = 0;
  __syncwarp();
  atomicAdd(&sums[threadIdx.x / divisor], 1.0f);
  atomicMax(&shared[threadIdx.x / divisor], 1);
  __syncwarp();
  numbers[threadIdx.x] = shared[threadIdx.x];
}

TEST_P(AnyOrder, LanesThatChangeTheSameWordTakeTurns) {
  Array<float> sums(32);
  Array<int> numbers(32);
  for (const unsigned divisor : {1u, 2u, 8u, 32u}) {
    const Counters counters = count(add_to, 1, 32, sums, numbers, divisor);
    const unsigned words = 32 / divisor, sectors = std::max(1u, words / 8);
    expect_requests(counters.global_atomic, 1, sectors * divisor, sectors);
    expect_requests(counters.shared_atomic, 1, divisor, 1);
  }
}

__device__ unsigned table[32];

__global__ void look_up(unsigned* out) { out[threadIdx.x] = table[threadIdx.x]; }

TEST_P(AnyOrder, DeviceVariablesAreGlobalMemory) {
  Array<unsigned> out(32);
  for (unsigned i = 0; i < 32; ++i) table[i] = 3 * i;  // as cudaMemcpyToSymbol does
  expect_requests(count(look_up, 1, 32, out).global_load, 1, 4, 4);
  EXPECT_EQ(out[31], 93u);
}

// --- Divergence ----------------------------------------------------------------------------------

__global__ void either_or(const float* a, const float* b, float* out) {
  float x;
  if (threadIdx.x % 2 == 0) {
    x = a[threadIdx.x];
  } else {
    x = b[threadIdx.x] + 1.0f;
  }
  out[threadIdx.x] = x;
}

TEST_P(AnyOrder, BranchesGoOneAfterTheOtherAndMeetAgain) {
  Array<float> a(32), b(32), out(32);
  const Counters counters = count(either_or, 1, 32, a, b, out);
  // Every second float of four sectors, twice; then all lanes store together.
  expect_requests(counters.global_load, 2, 8, 4);
  EXPECT_EQ(counters.global_load.lanes, 32u);
  expect_requests(counters.global_store, 1, 4, 4);
}

__global__ void as_long_as_told(const float* in, float* out, const unsigned* turns) {
  float sum = 0;
  for (unsigned i = 0; i < turns[threadIdx.x]; ++i) sum += in[i * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
}

TEST_P(AnyOrder, LanesThatLeaveALoopWaitForThoseStillInIt) {
  Array<float> in(32 * 32), out(32);
  Array<unsigned> turns(32);
  for (unsigned i = 0; i < 32; ++i) turns[i] = i % 5;
  const Counters counters = count(as_long_as_told, 1, 32, in, out, turns);
  expect_requests(counters.global_store, 1, 4, 4);
  EXPECT_EQ(counters.global_load.requests,
            1u + 4u);  // turns[] once; in[] in the longest lane's turns
}

__global__ void nested_loops(const float* in, float* out, const unsigned* turns) {
  for (unsigned row = 0; row < 3; ++row) {
    float sum = 0;
    const unsigned n = (turns[threadIdx.x] + row) % 4;
    for (unsigned i = 0; i < n; ++i) sum += in[i * 32 + threadIdx.x];
    out[row * 32 + threadIdx.x] = sum;
  }
}

TEST_P(AnyOrder, InnerLoopsOfDifferentLengthDoNotTearTheOuterApart) {
  Array<float> in(32 * 32), out(3 * 32);
  Array<unsigned> turns(32);
  for (unsigned i = 0; i < 32; ++i) turns[i] = i % 4;
  const Counters counters = count(nested_loops, 1, 32, in, out, turns);
  expect_requests(counters.global_store, 3, 3 * 4, 3 * 4);
  EXPECT_EQ(counters.global_load.requests, 3u * (1 + 3));  // in each row some lane takes 3 turns
}

__global__ void store_sometimes(const float* in, float* out, unsigned turns) {
  float sum = 0;
  for (unsigned i = 0; i < turns; ++i) {
    sum += in[i * 32 + threadIdx.x];
    if ((i + threadIdx.x) % 2 == 0) out[i * 32 + threadIdx.x] = sum;
  }
}

TEST_P(AnyOrder, LanesThatSkipAPartOfALoopWaitForTheOthersAtItsEnd) {
  Array<float> in(8 * 32), out(8 * 32);
  const Counters counters = count(store_sometimes, 1, 32, in, out, 8u);
  expect_requests(counters.global_load, 8, 8 * 4, 8 * 4);
  expect_requests(counters.global_store, 8, 8 * 4, 8 * 2);
}

__global__ void continue_sometimes(const float* in, float* out, unsigned turns) {
  float sum = 0;
  for (unsigned i = 0;;) {
    sum += in[i * 32 + threadIdx.x];
    if (++i == turns) break;
    if ((i + threadIdx.x) % 2 == 0) continue;
    out[i * 32 + threadIdx.x] = sum;
  }
}

TEST_P(AnyOrder, LanesThatJumpBackWaitForThoseInTheIterationBefore) {
  Array<float> in(9 * 32), out(9 * 32);
  const Counters counters = count(continue_sometimes, 1, 32, in, out, 9u);
  expect_requests(counters.global_load, 9, 9 * 4, 9 * 4);
  expect_requests(counters.global_store, 8, 8 * 4, 8 * 2);
}

__global__ void halves_of_a_warp(const float* in, float* out) {
  float x = in[threadIdx.x];
  if (threadIdx.x < 16) x += __shfl_xor_sync(0xffffu, x, 8);
  out[threadIdx.x] = x;
}

TEST_P(AnyOrder, LanesThatTakeNoPartInAShuffleWaitBehindIt) {
  Array<float> in(32), out(32);
  expect_requests(count(halves_of_a_warp, 1, 32, in, out).global_store, 1, 4, 4);
}

__global__ void half_of_the_lanes(float* out) {
  if (threadIdx.x % 2 == 0) out[threadIdx.x] = 1.0f;
}

TEST_P(AnyOrder, MeanActiveLanesFallWithDivergence) {
  Array<float> out(32);
  const Counters counters = count(half_of_the_lanes, 1, 32, out);
  EXPECT_EQ(counters.global_store.lanes, 16u);
  EXPECT_EQ(counters.mean_active_lanes(), 16);
}

// --- Classics ------------------------------------------------------------------------------------

constexpr unsigned kBlock = 256;

/// The interleaved reduction of the textbooks, once with threads 0, 2s, 4s, … at work and once with
/// the first ones, whose words then lie 2s apart.
template <bool kStrided>
__global__ void interleaved_sum(const float* in, float* out) {
  __shared__ float sums[kBlock];
  const unsigned t = threadIdx.x;
  sums[t] = in[blockIdx.x * kBlock + t];
  __syncthreads();
  for (unsigned s = 1; s < kBlock; s *= 2) {
    const unsigned i = kStrided ? 2 * s * t : t;
    if (kStrided ? i < kBlock : t % (2 * s) == 0) sums[i] += sums[i + s];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}

/// Adds what a warp's request for these words takes.
void add_request(const std::vector<unsigned>& words, std::uint64_t& requests,
                 std::uint64_t& wavefronts) {
  if (words.empty()) return;
  std::map<unsigned, std::set<unsigned>> wanted;
  for (const unsigned word : words) wanted[word % 32].insert(word);
  std::size_t most = 0;
  for (const auto& [bank, different] : wanted) most = std::max(most, different.size());
  ++requests;
  wavefronts += most;
}

template <bool kStrided>
void expect_interleaved_sum() {
  constexpr unsigned blocks = 3, warps = kBlock / 32;
  std::uint64_t loads = 1, load_wavefronts = 1;  // thread 0 reads the sum
  std::uint64_t stores = warps, store_wavefronts = warps;
  for (unsigned s = 1; s < kBlock; s *= 2) {
    for (unsigned warp = 0; warp < warps; ++warp) {
      std::vector<unsigned> own, other;
      for (unsigned t = warp * 32; t < warp * 32 + 32; ++t) {
        const unsigned i = kStrided ? 2 * s * t : t;
        if (kStrided ? i >= kBlock : t % (2 * s) != 0) continue;
        own.push_back(i);
        other.push_back(i + s);
      }
      add_request(own, loads, load_wavefronts);
      add_request(other, loads, load_wavefronts);
      add_request(own, stores, store_wavefronts);
    }
  }
  Array<float> in(blocks * kBlock), out(blocks);
  const Counters counters = count(interleaved_sum<kStrided>, blocks, kBlock, in, out);
  EXPECT_EQ(counters.shared_load.requests, blocks * loads);
  EXPECT_EQ(counters.shared_load.units, blocks * load_wavefronts);
  EXPECT_EQ(counters.shared_store.requests, blocks * stores);
  EXPECT_EQ(counters.shared_store.units, blocks * store_wavefronts);
  EXPECT_EQ(counters.barriers, blocks * (1 + 8));
  expect_requests(counters.global_load, blocks * warps, blocks * warps * 4, blocks * warps * 4);
  expect_requests(counters.global_store, blocks, blocks, blocks);
}

TEST_P(AnyOrder, InterleavedReductions) {
  expect_interleaved_sum<false>();
  expect_interleaved_sum<true>();
}

/// C = A·B for n x n matrices, n a multiple of the tile of 16 x 16 that a block of as many threads
/// makes: a warp is two rows of the tile.
__global__ void tiled_gemm(const float* a, const float* b, float* c, unsigned n) {
  constexpr unsigned kTile = 16;
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const unsigned x = threadIdx.x, y = threadIdx.y;
  const unsigned row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
  float sum = 0;
  for (unsigned k0 = 0; k0 < n; k0 += kTile) {
    tile_a[y][x] = a[row * n + k0 + x];
    tile_b[y][x] = b[(k0 + y) * n + col];
    __syncthreads();
    for (unsigned k = 0; k < kTile; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

TEST_P(AnyOrder, TiledGemm) {
  constexpr unsigned n = 64, tile = 16, blocks = (n / tile) * (n / tile), slices = n / tile;
  constexpr unsigned warps = tile * tile / 32;
  Array<float> a(n * n), b(n * n), c(n * n);
  const Counters counters =
      count(tiled_gemm, dim3(n / tile, n / tile), dim3(tile, tile), a, b, c, n);
  // A request for a tile is two rows of 16 floats: 2 x 2 sectors.
  const unsigned loads = blocks * slices * warps * 2;
  expect_requests(counters.global_load, loads, loads * 4, loads * 4);
  expect_requests(counters.global_store, blocks * warps, blocks * warps * 4, blocks * warps * 4);
  // tile_a[y][k] is two words, in different banks; tile_b[k][x] is 16 words for both rows.
  const unsigned shared_loads = blocks * slices * warps * tile * 2;
  expect_requests(counters.shared_load, shared_loads, shared_loads, shared_loads);
  expect_requests(counters.shared_store, loads, loads, loads);
  EXPECT_EQ(counters.barriers, blocks * slices * 2);
  EXPECT_EQ(counters.mean_active_lanes(), 32);
}

// --- By line, and again and again ----------------------------------------------------------------

TEST(Counters, AreTheSameEveryTimeAndInEveryOrder) {
  Array<float> in(3 * kBlock), out(3);
  const auto counted = [&](unsigned order) {
    ladder::host::set_lane_order(order);
    const Counters counters = count(interleaved_sum<true>, 3, kBlock, in, out);
    ladder::host::set_lane_order(0);
    return counters;
  };
  const Counters first = counted(0);
  for (const unsigned order : {0u, 1u, 2u, 20240607u}) EXPECT_EQ(counted(order), first) << order;
}

__global__ void load_and_store(const float* in, float* out) {
  const float x = in[threadIdx.x];  // the line of the load
  out[2 * threadIdx.x] = x;         // the line of the store
}
constexpr int kLoadLine = __LINE__ - 3, kStoreLine = __LINE__ - 2;

TEST(Counters, ByLine) {
  Array<float> in(32), out(64);
  const Counters counters = count(load_and_store, 1, 32, in, out);
  ASSERT_EQ(counters.lines.size(), 2u);
  const auto& [load, store] = std::tie(counters.lines[0], counters.lines[1]);
  EXPECT_TRUE(load.file.ends_with("host_counters_test.cpp")) << load.file;
  EXPECT_EQ(load.line, kLoadLine);
  EXPECT_EQ(load.space, Space::global);
  EXPECT_EQ(load.access, Access::load);
  EXPECT_EQ(load.width, sizeof(float));
  expect_requests(load.requests, 1, 4, 4);
  EXPECT_EQ(store.line, kStoreLine);
  EXPECT_EQ(store.access, Access::store);
  expect_requests(store.requests, 1, 8, 4);
}

TEST(Counters, NothingIsCountedUnasked) {
  Array<float> in(32), out(64);
  run_block(32, load_and_store, in, out);
  EXPECT_EQ(ladder::host::count([] {}), Counters{});
}

TEST(Counters, AFaultEndsTheCounting) {
  Array<float> in(31), out(64);
  EXPECT_NE(error_of([&] { count(load_and_store, 1, 32, in, out); }), "");
  EXPECT_FALSE(ladder::host::counting);
  Array<float> longer(32);
  expect_requests(count(load_and_store, 1, 32, longer, out).global_load, 1, 4, 4);
}

}  // namespace

#endif
