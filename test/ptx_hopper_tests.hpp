// The tests of what device/ptx/ has for Hopper alone, but for wgmma, on both backends.
#pragma once

#include "gpu.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>
#include <type_traits>

#include "arrays.hpp"
#include "device/ptx/cluster.hpp"
#include "device/ptx/elect.hpp"
#include "device/ptx/griddepcontrol.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/ptx/stmatrix.hpp"
#include "device/ptx/tma.hpp"
#include "device/tensor_map.hpp"
#include "device/warps_team.hpp"
#include "swizzled.hpp"

namespace {

using ladder::bfloat16;
using ladder::half;
using ladder::launch;
using namespace ladder::ptx;

class Hopper : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Order, Hopper, LADDER_ORDERS);

// --- stmatrix ------------------------------------------------------------------------------------

/// Element (row, column) of matrix i is 64 i + 8 row + column. The rows lie in no order, with gaps.
template <bool kTransposed>
__global__ void store_matrices(std::uint16_t* out) {
  __shared__ __align__(16) std::uint16_t rows[32][24];
  const unsigned lane = threadIdx.x;
  for (std::uint16_t& element : rows[lane]) element = 0xffff;
  __syncwarp();
  std::uint32_t fragment[4];
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned first = 64 * i + 8 * (lane / 4) + lane % 4 * 2;
    fragment[i] = first | (first + 1) << 16;
  }
  if (kTransposed) {
    stmatrix_transposed(rows[(lane * 5 + 3) % 32], fragment);
  } else {
    stmatrix(rows[(lane * 5 + 3) % 32], fragment);
  }
  __syncwarp();
  for (int column = 0; column < 24; ++column) {
    out[lane * 24 + column] = rows[(lane * 5 + 3) % 32][column];
  }
}

TEST_P(Hopper, Stmatrix) {
  Array<std::uint16_t> array(32 * 24);
  launch(store_matrices<false>, 1, 32, 0, nullptr, array);
  const auto out = array.read();
  for (int row = 0; row < 32; ++row) {
    for (int column = 0; column < 24; ++column) {
      ASSERT_EQ(out[row * 24 + column], column < 8 ? row * 8 + column : 0xffff)
          << "row " << row << ", column " << column;
    }
  }
}

TEST_P(Hopper, StmatrixTransposed) {
  Array<std::uint16_t> array(32 * 24);
  launch(store_matrices<true>, 1, 32, 0, nullptr, array);
  const auto out = array.read();
  for (int row = 0; row < 32; ++row) {
    for (int column = 0; column < 24; ++column) {
      const int element = row / 8 * 64 + column * 8 + row % 8;  // its column is now the row
      ASSERT_EQ(out[row * 24 + column], column < 8 ? element : 0xffff)
          << "row " << row << ", column " << column;
    }
  }
}

// --- TMA -----------------------------------------------------------------------------------------

constexpr int kRows = 16, kCols = 32, kBox = kRows * kCols;  // 128 bytes of floats wide

/// Loads a box from (x, y) on, shows how it lies in shared memory, and stores it at (to_x, to_y).
__global__ void move_box(const __grid_constant__ CUtensorMap from,
                         const __grid_constant__ CUtensorMap to, int x, int y, int to_x, int to_y,
                         float* shown) {
  __shared__ __align__(1024) float box[kBox];
  __shared__ Mbarrier landed;
  if (threadIdx.x == 0) {
    mbarrier_init(&landed, 1);
    fence_proxy_async();
    mbarrier_arrive_expect_tx(&landed, sizeof box);
    tensor_load(box, &from, x, y, &landed);
  }
  __syncthreads();
  mbarrier_wait(&landed, 0);
  for (int i = threadIdx.x; i < kBox; i += blockDim.x) shown[i] = box[i];
  if (threadIdx.x == 0) {
    tensor_store(&to, to_x, to_y, box);
    bulk_commit_group();
    bulk_wait_group_read<0>();
  }
}

CUtensorMap map_of(const float* matrix, int rows, int cols) {
  return ladder::tensor_map(ladder::DType::f32, matrix,
                            {{.size = cols, .stride = 4, .box = kCols},
                             {.size = rows, .stride = cols * std::int64_t{4}, .box = kRows}},
                            CU_TENSOR_MAP_SWIZZLE_128B);
}

TEST_P(Hopper, TensorLoadSwizzlesAndTensorStoreUndoesIt) {
  constexpr int kM = 40, kN = 68;
  const auto in = random_integers<float>(kM * kN, 1 << 20);
  using Places = std::initializer_list<std::tuple<int, int, int, int>>;
  for (const auto& [x, y, to_x, to_y] :
       Places{{0, 0, 0, 0}, {20, 9, 36, 24}, {60, 30, 60, 30}, {-8, -3, 40, 0}}) {
    Array<float> from(in), to(std::vector<float>(kM * kN, 0.5f)), shown(kBox);
    launch(move_box, 1, 64, 0, nullptr, map_of(from, kM, kN), map_of(to, kM, kN), x, y, to_x, to_y,
           shown);
    auto element = [&](int row, int column) {  // zero outside
      const bool inside = row >= 0 && row < kM && column >= 0 && column < kN;
      return inside ? in[row * kN + column] : 0;
    };
    const auto box = shown.read(), out = to.read();
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kCols; ++column) {
        ASSERT_EQ(box[swizzled(row, column / 4) * 4 + column % 4], element(y + row, x + column))
            << "box at " << x << ", " << y << ": row " << row << ", column " << column;
      }
    }
    for (int row = 0; row < kM; ++row) {
      for (int column = 0; column < kN; ++column) {
        const int i = row - to_y, j = column - to_x;
        const bool stored = i >= 0 && i < kRows && j >= 0 && j < kCols;
        ASSERT_EQ(out[row * kN + column], stored ? element(y + i, x + j) : 0.5f)
            << "stored at " << to_x << ", " << to_y << ": row " << row << ", column " << column;
      }
    }
  }
}

constexpr int kCluster = 2;

/// Every block asks for its half of a box, for both. shown: every block's box.
__global__ void __cluster_dims__(kCluster)
    share_box(const __grid_constant__ CUtensorMap from, float* shown) {
  __shared__ __align__(1024) float box[kCluster * kBox];
  __shared__ Mbarrier landed;
  const unsigned rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&landed, sizeof box);
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    tensor_load_multicast(box + rank * kBox, &from, 0, static_cast<int>(rank) * kRows, &landed,
                          (1 << kCluster) - 1);
  }
  mbarrier_wait(&landed, 0);
  for (int i = threadIdx.x; i < kCluster * kBox; i += blockDim.x) {
    shown[blockIdx.x * kCluster * kBox + i] = box[i];
  }
  cluster_sync();
}

TEST_P(Hopper, MulticastReachesAllBlocks) {
  const auto in = random_integers<float>(kCluster * kBox, 1 << 20);
  Array<float> from(in), shown(kCluster * kCluster * kBox);
  launch(share_box, kCluster, 64, 0, nullptr, map_of(from, kCluster * kRows, kCols), shown);
  const auto out = shown.read();
  for (int block = 0; block < kCluster; ++block) {
    for (int row = 0; row < kCluster * kRows; ++row) {
      for (int column = 0; column < kCols; ++column) {
        const int at = swizzled(row, column / 4) * 4 + column % 4;
        ASSERT_EQ(out[block * kCluster * kBox + at], in[row * kCols + column])
            << "block " << block << ", row " << row << ", column " << column;
      }
    }
  }
}

struct Corner {
  int x, y, z, v, w;
};

/// Boxes of eight elements along x, and two along the others, of a tensor whose sizes are 12, 5, 4,
/// 3, 2: what of the box at `at` is inside is stored from `to_at` on, as far as there is room.
template <int kRank>
__global__ void move_small_box(const __grid_constant__ CUtensorMap from,
                               const __grid_constant__ CUtensorMap to, Corner at, Corner to_at,
                               float* shown) {
  __shared__ __align__(128) float box[8 << (kRank - 1)];
  __shared__ Mbarrier landed;
  if (threadIdx.x == 0) {
    const auto [x, y, z, v, w] = at;
    mbarrier_init(&landed, 1);
    fence_proxy_async();
    mbarrier_arrive_expect_tx(&landed, sizeof box);
    if constexpr (kRank == 1) tensor_load(box, &from, x, &landed);
    if constexpr (kRank == 2) tensor_load(box, &from, x, y, &landed);
    if constexpr (kRank == 3) tensor_load(box, &from, x, y, z, &landed);
    if constexpr (kRank == 4) tensor_load(box, &from, x, y, z, v, &landed);
    if constexpr (kRank == 5) tensor_load(box, &from, x, y, z, v, w, &landed);
  }
  __syncthreads();
  mbarrier_wait(&landed, 0);
  for (int i = threadIdx.x; i < 8 << (kRank - 1); i += blockDim.x) shown[i] = box[i];
  if (threadIdx.x == 0) {
    const auto [x, y, z, v, w] = to_at;
    if constexpr (kRank == 1) tensor_store(&to, x, box);
    if constexpr (kRank == 2) tensor_store(&to, x, y, box);
    if constexpr (kRank == 3) tensor_store(&to, x, y, z, box);
    if constexpr (kRank == 4) tensor_store(&to, x, y, z, v, box);
    if constexpr (kRank == 5) tensor_store(&to, x, y, z, v, w, box);
    bulk_commit_group();
    bulk_wait_group_read<0>();
  }
}

constexpr int kSizes[5] = {12, 5, 4, 3, 2};  // floats

CUtensorMap map_of_rank(int rank, const float* tensor) {
  const auto dimension = [](int d) {
    std::int64_t stride = 4;
    for (int inner = 0; inner < d; ++inner) stride *= kSizes[inner];
    return ladder::TensorDimension{.size = kSizes[d], .stride = stride, .box = d == 0 ? 8 : 2};
  };
  const auto x = dimension(0), y = dimension(1), z = dimension(2), v = dimension(3);
  const auto map = [&](std::initializer_list<ladder::TensorDimension> dimensions) {
    return ladder::tensor_map(ladder::DType::f32, tensor, dimensions, CU_TENSOR_MAP_SWIZZLE_NONE);
  };
  return rank == 1   ? map({x})
         : rank == 2 ? map({x, y})
         : rank == 3 ? map({x, y, z})
         : rank == 4 ? map({x, y, z, v})
                     : map({x, y, z, v, dimension(4)});
}

template <int kRank>
void expect_small_box(const Corner& at, const Corner& to_at) {
  constexpr int kElements = 12 * 5 * 4 * 3 * 2, kBoxElements = 8 << (kRank - 1);
  const auto in = random_integers<float>(kElements, 1 << 20);
  const std::vector<float> before(kElements, 0.5f);
  Array<float> from(in), to(before), shown(kBoxElements);
  launch(move_small_box<kRank>, 1, 32, 0, nullptr, map_of_rank(kRank, from), map_of_rank(kRank, to),
         at, to_at, shown);
  // The element of number i in the box at this corner, or none.
  const auto element_of = [](const Corner& corner, int i) -> std::optional<int> {
    const int places[5] = {corner.x, corner.y, corner.z, corner.v, corner.w};
    int element = 0, stride = 1;
    for (int d = 0; d < kRank; ++d) {
      const int wide = d == 0 ? 8 : 2, place = places[d] + i % wide;
      if (place < 0 || place >= kSizes[d]) return std::nullopt;
      i /= wide;
      element += place * stride;
      stride *= kSizes[d];
    }
    return element;
  };
  std::vector<float> expected(before), box(kBoxElements);
  for (int i = 0; i < kBoxElements; ++i) {
    if (const auto element = element_of(at, i)) box[i] = in[*element];
    if (const auto element = element_of(to_at, i)) expected[*element] = box[i];
  }
  EXPECT_EQ(shown.read(), box);
  EXPECT_EQ(to.read(), expected);
}

TEST_P(Hopper, BoxesOfEveryRank) {
  const std::array<Corner, 5> corners{
      {{0, 0, 0, 0, 0}, {4, 3, 1, 1, 0}, {-4, -1, -1, -1, -1}, {8, 4, 3, 2, 1}, {4, 2, 4, 0, 0}}};
  for (const Corner& at : corners) {
    for (const Corner& to_at : corners) {
      if (to_at.x < 0) continue;
      SCOPED_TRACE(testing::Message() << "from x = " << at.x << " to x = " << to_at.x);
      expect_small_box<1>(at, to_at);
      expect_small_box<2>(at, to_at);
      expect_small_box<3>(at, to_at);
      expect_small_box<4>(at, to_at);
      expect_small_box<5>(at, to_at);
    }
  }
}

constexpr int kStep = 3, kSpan = 23;  // rows of a box: 0, 3, … 21

__global__ void show_box(const __grid_constant__ CUtensorMap from, int x, int y, unsigned words,
                         std::uint32_t* shown) {
  __shared__ __align__(1024) std::uint32_t box[(kSpan + kStep - 1) / kStep * 32];
  __shared__ Mbarrier landed;
  if (threadIdx.x == 0) {
    mbarrier_init(&landed, 1);
    fence_proxy_async();
    mbarrier_arrive_expect_tx(&landed, words * 4);
    tensor_load(box, &from, x, y, &landed);
  }
  __syncthreads();
  mbarrier_wait(&landed, 0);
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shown[i] = box[i];
}

/// Boxes of each kStep-th row, as wide as their swizzle; `outside` is what a load brings for what
/// lies outside of the tensor. A step along x changes nothing.
void expect_steps(CUtensorMapSwizzle swizzle, int row_bytes, CUtensorMapFloatOOBfill fill,
                  std::uint32_t outside) {
  constexpr int kM = 40, kN = 68, kBoxRows = (kSpan + kStep - 1) / kStep;
  const auto in = random_integers<float>(kM * kN, 1 << 20);
  Array<float> from(in);
  const int cols = row_bytes / 4, words = kBoxRows * cols;
  for (const int x_step : {1, 2}) {
    const CUtensorMap map = ladder::tensor_map(
        ladder::DType::f32, from,
        {{.size = kN, .stride = 4, .box = cols, .step = x_step},
         {.size = kM, .stride = kN * std::int64_t{4}, .box = kSpan, .step = kStep}},
        swizzle, fill);
    for (const auto& [x, y] : {std::pair{0, 0}, {-4, -5}, {64, 30}}) {
      Array<std::uint32_t> shown(words);
      launch(show_box, 1, 64, 0, nullptr, map, x, y, static_cast<unsigned>(words), shown);
      const auto out = shown.read();
      for (int i = 0; i < words; ++i) {
        const int row = y + i / cols * kStep, column = x + i % cols;
        const bool inside = row >= 0 && row < kM && column >= 0 && column < kN;
        const int at = swizzled(i / cols, i % cols / 4, row_bytes) * 4 + i % 4;
        ASSERT_EQ(out[at], inside ? std::bit_cast<std::uint32_t>(in[row * kN + column]) : outside)
            << row_bytes << " bytes at " << x << ", " << y << ": row " << row << ", column "
            << column << ", step along x " << x_step;
      }
    }
  }
}

TEST_P(Hopper, BoxesWithStepsInEverySwizzleFilledWithZerosOrNaNs) {
  for (const auto& [fill, outside] :
       {std::pair{CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, 0u},
        {CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA, 0x7ff77ff7u}}) {
    expect_steps(CU_TENSOR_MAP_SWIZZLE_32B, 32, fill, outside);
    expect_steps(CU_TENSOR_MAP_SWIZZLE_64B, 64, fill, outside);
    expect_steps(CU_TENSOR_MAP_SWIZZLE_128B, 128, fill, outside);
  }
}

// --- Reductions ----------------------------------------------------------------------------------

constexpr int kReduced = 96, kReducers = 5;  // elements, blocks

template <class T>
double number(T x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(x);
  } else {
    return static_cast<float>(x);
  }
}
double reduced(Reduction reduction, double a, double b) {
  return reduction == Reduction::add   ? a + b
         : reduction == Reduction::min ? std::min(a, b)
                                       : std::max(a, b);
}
/// Small enough for all sums of five to be exact in bf16.
template <class T>
std::vector<T> random_numbers(std::size_t size) {
  return random_values<T>(size, std::uniform_int_distribution(std::is_unsigned_v<T> ? 0 : -30, 30));
}

/// Every block brings a row of its own to the same one.
template <Reduction kReduction, class T>
__global__ void reduce_rows(const T* rows, T* out) {
  __shared__ __align__(16) T row[kReduced];
  for (int i = threadIdx.x; i < kReduced; i += blockDim.x) row[i] = rows[blockIdx.x * kReduced + i];
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_reduce<kReduction>(out, row, sizeof row);
    bulk_commit_group();
    bulk_wait_group_read<0>();
  }
}

template <Reduction kReduction, class T>
void expect_reduced_rows() {
  const auto rows = random_numbers<T>(kReducers * kReduced), before = random_numbers<T>(kReduced);
  Array<T> from(rows), out(before);
  launch(reduce_rows<kReduction, T>, kReducers, 32, 0, nullptr, from, out);
  const auto after = out.read();
  for (int i = 0; i < kReduced; ++i) {
    double expected = number(before[i]);
    for (int row = 0; row < kReducers; ++row) {
      expected = reduced(kReduction, expected, number(rows[row * kReduced + i]));
    }
    ASSERT_EQ(number(after[i]), expected) << "element " << i;
  }
}

template <class... Ts>
void expect_sums() {
  (expect_reduced_rows<Reduction::add, Ts>(), ...);
}
template <class... Ts>
void expect_least_and_largest() {
  (expect_reduced_rows<Reduction::min, Ts>(), ...);
  (expect_reduced_rows<Reduction::max, Ts>(), ...);
}

TEST_P(Hopper, BulkReductions) {
  expect_sums<float, double, half, bfloat16, int, unsigned, unsigned long long>();
  expect_least_and_largest<half, bfloat16, int, unsigned, long long, unsigned long long>();
}

/// Every block brings a box of ones, twos, … to a matrix, each two rows below the one before.
template <Reduction kReduction, class T>
__global__ void reduce_boxes(const __grid_constant__ CUtensorMap to, int x, int y) {
  __shared__ __align__(1024) T box[kBox];
  for (int i = threadIdx.x; i < kBox; i += blockDim.x) box[i] = T(i % 7 + blockIdx.x);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tensor_reduce<kReduction>(&to, x, y + 2 * static_cast<int>(blockIdx.x), box);
    bulk_commit_group();
    bulk_wait_group<0>();
  }
}

template <Reduction kReduction, class T>
void expect_reduced_boxes(ladder::DType type) {
  constexpr int kM = 40, kN = 68;
  const auto before = random_numbers<T>(kM * kN);
  for (const auto& [x, y] : {std::pair{0, 0}, {4, 3}, {52, 30}}) {
    Array<T> matrix(before);
    launch(reduce_boxes<kReduction, T>, kReducers, 64, 0, nullptr,
           ladder::tensor_map(type, matrix,
                              {{.size = kN, .stride = 4, .box = kCols},
                               {.size = kM, .stride = kN * 4, .box = kRows}},
                              CU_TENSOR_MAP_SWIZZLE_NONE),
           x, y);
    const auto after = matrix.read();
    for (int row = 0; row < kM; ++row) {
      for (int column = 0; column < kN; ++column) {
        double expected = number(before[row * kN + column]);
        for (int block = 0; block < kReducers; ++block) {
          const int i = row - y - 2 * block, j = column - x;
          if (i < 0 || i >= kRows || j < 0 || j >= kCols) continue;
          expected = reduced(kReduction, expected, (i * kCols + j) % 7 + block);
        }
        ASSERT_EQ(number(after[row * kN + column]), expected)
            << "box at " << x << ", " << y << ": row " << row << ", column " << column;
      }
    }
  }
}

TEST_P(Hopper, TensorReductions) {
  expect_reduced_boxes<Reduction::add, float>(ladder::DType::f32);
  expect_reduced_boxes<Reduction::add, int>(ladder::DType::i32);
  expect_reduced_boxes<Reduction::min, int>(ladder::DType::i32);
  expect_reduced_boxes<Reduction::max, int>(ladder::DType::i32);
}

/// A thread reads what it has stored and added to; prefetches change nothing.
__global__ void read_back(const __grid_constant__ CUtensorMap map, float* matrix, float* out) {
  __shared__ __align__(1024) float box[kBox];
  for (int i = threadIdx.x; i < kBox; i += blockDim.x) box[i] = i;
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_prefetch(matrix, sizeof box);
    tensor_prefetch(&map, 0, 0);
    bulk_store(matrix, box, sizeof box);
    bulk_commit_group();
    bulk_wait_group<0>();
    tensor_reduce<Reduction::add>(&map, 0, 0, box);
    bulk_commit_group();
    bulk_wait_group<0>();
    for (int i = 0; i < kBox; ++i) out[i] = matrix[i];
  }
}

TEST_P(Hopper, StoresThatAreWaitedForAreThere) {
  Array<float> matrix(kBox), out(kBox);
  const CUtensorMap map = ladder::tensor_map(ladder::DType::f32, matrix,
                                             {{.size = kCols, .stride = 4, .box = kCols},
                                              {.size = kRows, .stride = kCols * 4, .box = kRows}},
                                             CU_TENSOR_MAP_SWIZZLE_NONE);
  launch(read_back, 1, 32, 0, nullptr, map, matrix, out);
  const auto got = out.read();
  for (int i = 0; i < kBox; ++i) ASSERT_EQ(got[i], 2 * i);
}

// --- Clusters ------------------------------------------------------------------------------------

/// Blocks 0 and 1 read each other's value, and then tell each other `rounds` times, by turns, to go
/// on: an error, if what one arrives at is not what the other waits for.
__global__ void __cluster_dims__(kCluster) take_turns(int rounds, float* read, unsigned* ranks) {
  __shared__ __align__(16) float4 value;
  __shared__ Mbarrier told;
  const unsigned rank = cluster_rank(), other = rank ^ 1;
  if (threadIdx.x == 0) {
    ranks[blockIdx.x] = rank;
    value = make_float4(rank, rank + 10, rank + 20, rank + 30);
    mbarrier_init(&told, 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    const float4 theirs = cluster_load(cluster_address(&value, other));
    read[blockIdx.x * 4] = theirs.x;
    read[blockIdx.x * 4 + 1] = theirs.y;
    read[blockIdx.x * 4 + 2] = theirs.z;
    read[blockIdx.x * 4 + 3] = theirs.w;
    for (int round = 0; round < rounds; ++round) {
      if (rank == 0) mbarrier_arrive_remote(cluster_address(&told, other));
      mbarrier_wait(&told, round % 2);
      if (rank == 1) mbarrier_arrive_remote(cluster_address(&told, other));
    }
  }
  cluster_sync();
}

TEST_P(Hopper, BlocksOfAClusterReachEachOther) {
  Array<float> read(kCluster * 4);
  Array<unsigned> ranks(kCluster);
  launch(take_turns, kCluster, 32, 0, nullptr, 5, read, ranks);
  EXPECT_EQ(ranks.read(), (std::vector{0u, 1u}));
  EXPECT_EQ(read.read(), (std::vector<float>{1, 11, 21, 31, 0, 10, 20, 30}));
}

/// A barrier that expects both blocks does not let go when only this block has arrived.
__global__ void __cluster_dims__(kCluster) wait_for_both(int* ready) {
  __shared__ Mbarrier both;
  const unsigned rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&both, kCluster);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    if (rank == 1) {
      const long long start = clock64();
      while (clock64() - start < 100'000) {
      }
      ready[0] = 1;
      __threadfence();
    }
    for (unsigned to = 0; to < kCluster; ++to) {
      mbarrier_arrive_remote(cluster_address(&both, to));
    }
    mbarrier_wait(&both, 0);
    __threadfence();
    if (rank == 0) ready[1] = *static_cast<volatile int*>(ready);
  }
  cluster_sync();
}

TEST_P(Hopper, RemoteArrivalsAreCounted) {
  Array<int> ready(2);
  launch(wait_for_both, kCluster, 32, 0, nullptr, ready);
  EXPECT_EQ(ready.read(), (std::vector{1, 1})) << "block 0 did not wait for block 1";
}

/// Every thread sends the other block four floats, and reads what its own has been sent.
__global__ void __cluster_dims__(kCluster) send_floats(float* got) {
  __shared__ __align__(16) float4 inbox[32];
  __shared__ Mbarrier received;
  const unsigned rank = cluster_rank(), lane = threadIdx.x;
  if (lane == 0) {
    mbarrier_init(&received, 1);
    mbarrier_arrive_expect_tx(&received, sizeof inbox);
    fence_mbarrier_init();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  const float x = 1000.0f * rank + 4 * lane;
  cluster_store_async(cluster_address(&inbox[lane], rank ^ 1), make_float4(x, x + 1, x + 2, x + 3),
                      cluster_address(&received, rank ^ 1));
  mbarrier_wait_cluster(&received, 0);
  reinterpret_cast<float4*>(got)[blockIdx.x * 32 + lane] = inbox[31 - lane];
}

TEST_P(Hopper, AsynchronousStoresAreCountedWhenTheyLand) {
  Array<float> array(kCluster * 128);
  launch(send_floats, kCluster, 32, 0, nullptr, array);
  const auto got = array.read();
  for (int i = 0; i < kCluster * 128; ++i) {
    const int lane = i % 128 / 4;
    ASSERT_EQ(got[i], (i < 128 ? 1000 : 0) + 4 * (31 - lane) + i % 4) << "float " << i;
  }
}

/// Each block stores a row of the other's, adds to a sum of the other's, and copies what it has been
/// sent back to a third place. out: by block, the two rows and the sum.
__global__ void __cluster_dims__(kCluster) write_to_the_other(float* out) {
  __shared__ __align__(16) float4 stored[32], copied[32];
  __shared__ unsigned sum;
  __shared__ Mbarrier received;
  const unsigned rank = cluster_rank(), other = rank ^ 1, lane = threadIdx.x;
  if (lane == 0) {
    sum = 100;
    mbarrier_init(&received, 1 + 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  const float x = 1000.0f * rank + 4 * lane;
  cluster_store(cluster_address(&stored[lane], other), make_float4(x, x + 1, x + 2, x + 3));
  cluster_atomic_add(cluster_address(&sum, other), lane);
  cluster_sync();
  fence_proxy_async();
  __syncthreads();
  if (lane == 0) {
    const unsigned barrier = cluster_address(&received, other);
    mbarrier_expect_tx(&received, 128);
    mbarrier_arrive_expect_tx_remote(barrier, sizeof copied - 128);
    mbarrier_arrive(&received);
    cluster_copy(cluster_address(copied, other), stored, sizeof copied, barrier);
  }
  while (!mbarrier_test(&received, 0)) {
  }
  float* const own = out + blockIdx.x * 257;
  for (int i = 0; i < 4; ++i) {
    own[lane * 4 + i] = reinterpret_cast<const float*>(&stored[lane])[i];
    own[128 + lane * 4 + i] = reinterpret_cast<const float*>(&copied[lane])[i];
  }
  if (lane == 0) own[256] = static_cast<float>(sum);
  cluster_sync();
  if (lane == 0) mbarrier_invalidate(&received);
}

TEST_P(Hopper, BlocksWriteToEachOther) {
  Array<float> array(kCluster * 257);
  launch(write_to_the_other, kCluster, 32, 0, nullptr, array);
  const auto out = array.read();
  for (int block = 0; block < kCluster; ++block) {
    for (int i = 0; i < 128; ++i) {
      ASSERT_EQ(out[block * 257 + i], 1000 * (1 - block) + i) << "block " << block;
      ASSERT_EQ(out[block * 257 + 128 + i], 1000 * block + i) << "block " << block;
    }
    ASSERT_EQ(out[block * 257 + 256], 100 + 31 * 32 / 2) << "block " << block;
  }
}

/// One lane of each warp counts, and the mbarrier that they meet at is made again for each round.
__global__ void elect_and_meet(int* counted) {
  __shared__ Mbarrier met;
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  griddepcontrol_wait();
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) mbarrier_init(&met, blockDim.x);
    __syncthreads();
    if (elect_one()) atomicAdd(&count, 1);
    mbarrier_arrive(&met);
    mbarrier_wait(&met, 0);
    if (threadIdx.x == 0) counted[round] = count;
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_invalidate(&met);
  }
  griddepcontrol_launch_dependents();
}

TEST_P(Hopper, OneLaneIsElectedAndAnMbarrierIsMadeAgain) {
  Array<int> counted(3);
  launch(elect_and_meet, 1, 96, 0, nullptr, counted);
  EXPECT_EQ(counted.read(), (std::vector{3, 6, 9}));
}

// --- Named barriers ------------------------------------------------------------------------------

/// Every team adds up in as many rounds as its number says, and in each of them other warps are
/// late. Counts the threads' wrong sums.
template <int kThreads>
__global__ void __launch_bounds__(512) add_up_in_teams(int* wrong) {
  using Team = ladder::WarpsTeam<kThreads, 512>;
  __shared__ typename Team::Storage storage[Team::kTeams];
  Team team(storage[Team::number()]);
  for (int round = 0; round < 50 * (Team::number() + 1); ++round) {
    if ((threadIdx.x / 32 + round) % 5 == 0) __nanosleep(1000);
    const int mine = threadIdx.x + round, first = Team::number() * kThreads + round;
    const int sum = kThreads * first + kThreads * (kThreads - 1) / 2;
    float one[] = {static_cast<float>(mine)};
    float two[] = {1, static_cast<float>(mine)};
    float four[] = {static_cast<float>(mine), 2, static_cast<float>(2 * mine), 3};
    team.sum(one);
    team.sum(two);
    team.sum(four);
    const bool is_right = one[0] == sum && two[0] == kThreads && two[1] == sum && four[0] == sum &&
                          four[1] == 2 * kThreads && four[2] == 2 * sum && four[3] == 3 * kThreads;
    if (!is_right) atomicAdd(wrong, 1);
  }
}

TEST_P(Hopper, TeamsOfWarpsAddUpByThemselves) {
  Array<int> wrong(std::vector{0});
  launch(add_up_in_teams<64>, 1, 512, 0, nullptr, wrong);
  launch(add_up_in_teams<128>, 1, 512, 0, nullptr, wrong);
  launch(add_up_in_teams<256>, 1, 512, 0, nullptr, wrong);
  launch(add_up_in_teams<512>, 1, 512, 0, nullptr, wrong);
  EXPECT_EQ(wrong.read()[0], 0);
}

/// Two teams take turns: one writes and arrives, the other waits, reads, and arrives in its turn.
__global__ void hand_over(int* got) {
  constexpr int kTeam = 64;
  __shared__ int value[kTeam];
  const int t = threadIdx.x % kTeam;
  for (int round = 0; round < 5; ++round) {
    if (threadIdx.x < kTeam) {
      if (round > 0) named_barrier_sync<2 * kTeam>(2);
      value[t] = 10 * round + t;
      named_barrier_arrive<2 * kTeam>(1);
    } else {
      named_barrier_sync<2 * kTeam>(1);
      got[round * kTeam + t] = value[(t + 1) % kTeam];
      if (round < 4) named_barrier_arrive<2 * kTeam>(2);
    }
  }
}

TEST_P(Hopper, NamedBarriersHandOver) {
  Array<int> array(5 * 64);
  launch(hand_over, 1, 128, 0, nullptr, array);
  const auto got = array.read();
  for (int i = 0; i < 5 * 64; ++i) ASSERT_EQ(got[i], i / 64 * 10 + (i + 1) % 64);
}

// --- Registers -----------------------------------------------------------------------------------

/// The second and third warpgroup have more values than the 168 registers that they start with.
__global__ void __launch_bounds__(384, 1) trade_registers(const float* in, float* out) {
  if (threadIdx.x < 128) {
    setmaxnreg_dec<24>();
    return;
  }
  setmaxnreg_inc<240>();
  constexpr int kValues = 200;
  float value[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) value[i] = in[i] * static_cast<float>(threadIdx.x);
#pragma unroll 1
  for (int round = 0; round < 3; ++round) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) value[i] += value[(i + 1) % kValues];
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kValues; ++i) sum += value[i];
  out[threadIdx.x - 128] = sum;
}

TEST_P(Hopper, RegistersChangeHands) {
  const auto in = random_integers<float>(200, 8);
  Array<float> in_array(in), out_array(256);
  launch(trade_registers, 1, 384, 0, nullptr, in_array, out_array);
  const auto out = out_array.read();
  for (int thread = 0; thread < 256; ++thread) {
    std::vector<float> value(in);
    for (float& v : value) v *= static_cast<float>(thread + 128);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < value.size(); ++i) value[i] += value[(i + 1) % value.size()];
    }
    float sum = 0;
    for (float v : value) sum += v;
    ASSERT_EQ(out[thread], sum) << "thread " << thread;
  }
}

}  // namespace
