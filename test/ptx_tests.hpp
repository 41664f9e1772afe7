// Tests of device/ptx/ that run on both backends. ptx_host_test.cpp and ptx_gpu_test.cu include
// this behind what differs: the fixture Ptx, has_fp8(), and what arrays.hpp needs.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "arrays.hpp"
#include "device/ptx/cp_async.hpp"
#include "device/ptx/ldmatrix.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/mma.hpp"

namespace {

using ladder::bfloat16;
using ladder::float8_e4m3;
using ladder::half;
using ladder::launch;
using namespace ladder::ptx;

// --- mma -----------------------------------------------------------------------------------------

/// One mma. A and B are in words, A by rows and B by columns; C and D are row-major. T is the type
/// of A and B, where float stands for tf32, and S that of C and D.
template <class T, class S>
__global__ void multiply(const std::uint32_t* a, const std::uint32_t* b, const S* c, S* d) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  std::uint32_t fragment_a[4], fragment_b[2];
  for (int i = 0; i < 4; ++i) fragment_a[i] = a[(g + i % 2 * 8) * 8 + t + i / 2 * 4];
  for (int i = 0; i < 2; ++i) fragment_b[i] = b[g * 8 + t + i * 4];

  // Two neighbours in a row of C are two registers of floats, or one of halves.
  using Register = std::conditional_t<std::is_same_v<S, float>, float, std::uint32_t>;
  constexpr int kPair = 2 * sizeof(S) / sizeof(Register);
  const auto place = [&](int i) { return ((g + i / kPair * 8) * 4 + t) * kPair + i % kPair; };
  Register sums[2 * kPair];
  for (int i = 0; i < 2 * kPair; ++i) sums[i] = reinterpret_cast<const Register*>(c)[place(i)];
  if constexpr (std::is_same_v<T, float>) {
    mma_m16n8k8_tf32(sums, fragment_a, fragment_b, sums);
  } else if constexpr (std::is_same_v<T, float8_e4m3>) {
    mma_m16n8k32_e4m3(sums, fragment_a, fragment_b, sums);
  } else {
    mma_m16n8k16<T>(sums, fragment_a, fragment_b, sums);
  }
  for (int i = 0; i < 2 * kPair; ++i) reinterpret_cast<Register*>(d)[place(i)] = sums[i];
}

/// What the tensor cores see of an element.
template <class T>
double seen(T value) {
  auto x = static_cast<float>(value);
  if constexpr (std::is_same_v<T, float>) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    bits &= 0xffffe000;
    std::memcpy(&x, &bits, sizeof(bits));
  }
  return x;
}

/// Compares D with A * B + C in fp64; the error may be `relative` times the sum of all magnitudes.
template <class T, class S>
void expect_product(const std::vector<T>& a, const std::vector<T>& b, const std::vector<S>& c,
                    double relative) {
  constexpr int kK = 32 / sizeof(T);
  Array<T> a_array(a), b_array(b);
  Array<S> c_array(c), d_array(c.size());
  launch(multiply<T, S>, 1, 32, 0, nullptr, reinterpret_cast<std::uint32_t*>(+a_array),
         reinterpret_cast<std::uint32_t*>(+b_array), c_array, d_array);
  const std::vector<S> d = d_array.read();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double sum = static_cast<float>(c[row * 8 + column]), magnitude = std::abs(sum);
      for (int k = 0; k < kK; ++k) {
        const double product = seen(a[row * kK + k]) * seen(b[column * kK + k]);
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(static_cast<float>(d[row * 8 + column]), sum, relative * magnitude)
          << "row " << row << ", column " << column;
    }
  }
}

/// mma.hpp's bound for fp32 sums; fp16 sums are rounded again, at most once per 4 products.
template <class T, class S>
void test_products() {
  constexpr int kK = 32 / sizeof(T);
  const std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const double bound = std::is_same_v<S, float> ? kK * 0x1p-22 : kK / 4 * 0x1p-10;
  for (int i = 0; i < 10; ++i) {
    expect_product<T, S>(random_integers<T>(16 * kK, 8), random_integers<T>(8 * kK, 8),
                         random_integers<S>(16 * 8, 100), 0);
    expect_product<T, S>(random_values<T>(16 * kK, uniform), random_values<T>(8 * kK, uniform),
                         random_values<S>(16 * 8, uniform), bound);
  }
}

TEST_P(Ptx, MmaF16) { test_products<half, float>(); }
TEST_P(Ptx, MmaBf16) { test_products<bfloat16, float>(); }
TEST_P(Ptx, MmaTf32) { test_products<float, float>(); }
TEST_P(Ptx, MmaE4m3) {
  if (!has_fp8()) GTEST_SKIP() << "needs compute capability 9.0";
  test_products<float8_e4m3, float>();
}
TEST_P(Ptx, MmaF16WithSumsOfF16) { test_products<half, half>(); }

__global__ void round_to_tf32(const float* in, std::uint32_t* out) {
  out[threadIdx.x] = to_tf32(in[threadIdx.x]);
}

TEST_P(Ptx, ToTf32RoundsToNearestAndTiesAwayFromZero) {
  const std::vector<float> in{0.0f,         1.0f,          1 + 0x1p-10f,
                              1 + 0x1p-11f, -1 - 0x1p-11f, 1 + 0x1p-11f - 0x1p-23f,
                              2 - 0x1p-23f, HUGE_VALF};
  const std::vector<float> rounded{0.0f,          1.0f, 1 + 0x1p-10f, 1 + 0x1p-10f,
                                   -1 - 0x1p-10f, 1.0f, 2.0f,         HUGE_VALF};
  Array<float> in_array(in);
  Array<std::uint32_t> out_array(in.size());
  launch(round_to_tf32, 1, static_cast<unsigned>(in.size()), 0, nullptr, in_array, out_array);
  const auto out = out_array.read();
  for (std::size_t i = 0; i < in.size(); ++i) {
    float value;
    std::memcpy(&value, &out[i], sizeof(value));
    EXPECT_EQ(seen(value), rounded[i]) << in[i];
  }
}

// --- ldmatrix ------------------------------------------------------------------------------------

/// Element (row, column) of matrix i is 64 i + 8 row + column. The rows lie in no order, with gaps.
template <int kMatrices, bool kTransposed>
__global__ void load_matrices(std::uint32_t* out) {
  alignas(16) __shared__ std::uint16_t rows[8 * kMatrices][24];
  const int lane = threadIdx.x;
  const int row = (lane * 5 + 3) % (8 * kMatrices);
  if (lane < 8 * kMatrices) {
    for (int column = 0; column < 8; ++column) {
      rows[row][column] = static_cast<std::uint16_t>(lane * 8 + column);
    }
  }
  __syncwarp();
  std::uint32_t fragment[kMatrices];
  if constexpr (kTransposed) {
    ldmatrix_trans(fragment, rows[row]);
  } else {
    ldmatrix(fragment, rows[row]);
  }
  for (int i = 0; i < kMatrices; ++i) out[lane * kMatrices + i] = fragment[i];
}

template <int kMatrices, bool kTransposed>
void test_ldmatrix() {
  Array<std::uint32_t> array(32 * kMatrices);
  launch(load_matrices<kMatrices, kTransposed>, 1, 32, 0, nullptr, array);
  const auto out = array.read();
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < kMatrices; ++i) {
      for (int e = 0; e < 2; ++e) {
        const int across = lane / 4, along = lane % 4 * 2 + e;
        const int row = kTransposed ? along : across, column = kTransposed ? across : along;
        ASSERT_EQ(out[lane * kMatrices + i] >> 16 * e & 0xffff, 64 * i + 8 * row + column)
            << "lane " << lane << ", matrix " << i << ", element " << e;
      }
    }
  }
}

TEST_P(Ptx, LdmatrixX1) { test_ldmatrix<1, false>(); }
TEST_P(Ptx, LdmatrixX2) { test_ldmatrix<2, false>(); }
TEST_P(Ptx, LdmatrixX4) { test_ldmatrix<4, false>(); }
TEST_P(Ptx, LdmatrixX1Transposed) { test_ldmatrix<1, true>(); }
TEST_P(Ptx, LdmatrixX2Transposed) { test_ldmatrix<2, true>(); }
TEST_P(Ptx, LdmatrixX4Transposed) { test_ldmatrix<4, true>(); }

// --- cp.async ------------------------------------------------------------------------------------

constexpr char kBefore = 0x55;

enum class Through { l1, l2, streaming };

/// Copies a piece per thread onto bytes that were something else, and reads another thread's.
template <int kBytes, Through kThrough>
__global__ void copy_pieces(const char* in, char* out, int valid_bytes) {
  alignas(16) __shared__ char pieces[64][kBytes];
  const int mine = threadIdx.x, other = 63 - mine;
  for (char& byte : pieces[mine]) byte = kBefore;
  __syncthreads();
  if constexpr (kThrough == Through::l1) {
    cp_async_ca<kBytes>(pieces[mine], in + mine * kBytes, valid_bytes);
  } else if constexpr (kThrough == Through::streaming) {
    // From the neighbour, so that the address is in a register of its own: see cp_async_streaming.
    const auto of_neighbour = reinterpret_cast<std::uintptr_t>(pieces[mine ^ 1]);
    auto* const piece = reinterpret_cast<char*>(__shfl_xor_sync(0xffffffffu, of_neighbour, 1));
    cp_async_streaming(piece, in + mine * kBytes, valid_bytes == kBytes);
  } else {
    cp_async<kBytes>(pieces[mine], in + mine * kBytes, valid_bytes);
  }
  cp_async_wait_all();
  __syncthreads();
  for (int i = 0; i < kBytes; ++i) out[other * kBytes + i] = pieces[other][i];
}

template <int kBytes, Through kThrough>
void test_copies() {
  const auto in = random_integers<std::int8_t>(64 * kBytes, 100);
  constexpr int kStep = kThrough == Through::streaming ? kBytes : 1;  // all or nothing
  for (int valid_bytes = 0; valid_bytes <= kBytes; valid_bytes += kStep) {
    Array<std::int8_t> in_array(in), out_array(in.size());
    launch(copy_pieces<kBytes, kThrough>, 1, 64, 0, nullptr, reinterpret_cast<char*>(+in_array),
           reinterpret_cast<char*>(+out_array), valid_bytes);
    const auto out = out_array.read();
    for (int i = 0; i < 64 * kBytes; ++i) {
      ASSERT_EQ(out[i], i % kBytes < valid_bytes ? in[i] : 0)
          << "byte " << i << " of pieces of " << kBytes << ", " << valid_bytes << " valid";
    }
  }
}

TEST_P(Ptx, CpAsync4Bytes) { test_copies<4, Through::l2>(); }
TEST_P(Ptx, CpAsync8Bytes) { test_copies<8, Through::l2>(); }
TEST_P(Ptx, CpAsync16Bytes) { test_copies<16, Through::l2>(); }
TEST_P(Ptx, CpAsync4BytesThroughL1) { test_copies<4, Through::l1>(); }
TEST_P(Ptx, CpAsync8BytesThroughL1) { test_copies<8, Through::l1>(); }
TEST_P(Ptx, CpAsync16BytesThroughL1) { test_copies<16, Through::l1>(); }
TEST_P(Ptx, CpAsync16BytesStreaming) { test_copies<16, Through::streaming>(); }

/// Every third thread copies.
template <int kBytes>
__global__ void copy_some_pieces(const char* in, char* out) {
  alignas(16) __shared__ char pieces[64][kBytes];
  const int mine = threadIdx.x, other = 63 - mine;
  for (char& byte : pieces[mine]) byte = kBefore;
  __syncthreads();
  cp_async_if<kBytes>(mine % 3 == 0, pieces[mine], in + mine * kBytes);
  cp_async_wait_all();
  __syncthreads();
  for (int i = 0; i < kBytes; ++i) out[other * kBytes + i] = pieces[other][i];
}

template <int kBytes>
void test_conditional_copies() {
  const auto in = random_integers<std::int8_t>(64 * kBytes, 100);
  Array<std::int8_t> in_array(in), out_array(in.size());
  launch(copy_some_pieces<kBytes>, 1, 64, 0, nullptr, reinterpret_cast<char*>(+in_array),
         reinterpret_cast<char*>(+out_array));
  const auto out = out_array.read();
  for (int i = 0; i < 64 * kBytes; ++i) {
    ASSERT_EQ(out[i], i / kBytes % 3 == 0 ? in[i] : kBefore) << "byte " << i;
  }
}

TEST_P(Ptx, CpAsyncIf4Bytes) { test_conditional_copies<4>(); }
TEST_P(Ptx, CpAsyncIf8Bytes) { test_conditional_copies<8>(); }
TEST_P(Ptx, CpAsyncIf16Bytes) { test_conditional_copies<16>(); }

/// Makes 3 groups of one copy and kEmpty of none, waits for all but kPending, and reads `complete`.
template <int kEmpty, int kPending>
__global__ void copy_groups(const int* in, int* out, int complete) {
  int* const values = ladder::dynamic_shared<int>();
  const int t = threadIdx.x;
  for (int group = 0; group < 3; ++group) {
    cp_async<4>(&values[group * 32 + t], &in[group * 32 + t]);
    cp_async_commit_group();
  }
  for (int group = 0; group < kEmpty; ++group) cp_async_commit_group();
  cp_async_wait_group<kPending>();
  for (int group = 0; group < complete; ++group) out[group * 32 + t] = values[group * 32 + t];
  cp_async_wait_all();
}

/// Whether the first `complete` groups were there.
template <int kEmpty, int kPending>
bool groups_complete(int complete) {
  const auto in = random_integers<int>(3 * 32, 1 << 20);
  Array<int> in_array(in), out_array(in.size());
  launch(copy_groups<kEmpty, kPending>, 1, 32, 3 * 32 * sizeof(int), nullptr, in_array, out_array,
         complete);
  const auto out = out_array.read();
  return std::equal(in.begin(), in.begin() + complete * 32, out.begin());
}

TEST_P(Ptx, CpAsyncWaitsForGroups) {
  EXPECT_TRUE((groups_complete<0, 0>(3)));
  EXPECT_TRUE((groups_complete<0, 1>(2)));
  EXPECT_TRUE((groups_complete<0, 2>(1)));
  EXPECT_TRUE((groups_complete<1, 1>(3))) << "an empty group counts";
  EXPECT_TRUE((groups_complete<1, 2>(2)));
}

// --- All together --------------------------------------------------------------------------------

/// C = A * B, 16 x 8, by one warp and as a tensor-core GEMM does it: while one pair of tiles is
/// multiplied, the next is copied. A is row-major, B too or, with kColumns, column-major.
template <bool kColumns>
__global__ void pipeline(const half* a, const half* b, float* c, int steps) {
  alignas(16) __shared__ half tile_a[2][16][16];
  alignas(16) __shared__ half tile_b[2][16 * 8];
  const int lane = threadIdx.x, k = steps * 16;
  const auto copy_tiles = [&](int step) {
    if (step < steps) {
      const int row = lane / 2, column = lane % 2 * 8;
      cp_async<16>(&tile_a[step % 2][row][column], &a[row * k + step * 16 + column]);
      const half* const from =
          kColumns ? &b[row * k + step * 16 + column] : &b[(step * 16 + lane) * 8];
      if (lane < 16) cp_async<16>(&tile_b[step % 2][lane * 8], from);
    }
    cp_async_commit_group();
  };

  float sums[4] = {};
  copy_tiles(0);
  for (int step = 0; step < steps; ++step) {
    copy_tiles(step + 1);
    cp_async_wait_group<1>();
    __syncthreads();
    std::uint32_t fragment_a[4], fragment_b[2];
    ldmatrix(fragment_a, &tile_a[step % 2][lane % 16][lane / 16 * 8]);
    if constexpr (kColumns) {
      ldmatrix(fragment_b, &tile_b[step % 2][lane % 8 * 16 + lane / 8 % 2 * 8]);
    } else {
      ldmatrix_trans(fragment_b, &tile_b[step % 2][lane % 16 * 8]);
    }
    mma_m16n8k16<half>(sums, fragment_a, fragment_b, sums);
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

template <bool kColumns>
void test_pipeline() {
  for (const int steps : {1, 2, 5}) {
    const int k = steps * 16;
    const auto a = random_integers<half>(16 * k, 8), b = random_integers<half>(8 * k, 8);
    Array<half> a_array(a), b_array(b);
    Array<float> c_array(16 * 8);
    launch(pipeline<kColumns>, 1, 32, 0, nullptr, a_array, b_array, c_array, steps);
    const auto c = c_array.read();
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float sum = 0;
        for (int i = 0; i < k; ++i) {
          sum += static_cast<float>(a[row * k + i]) *
                 static_cast<float>(b[kColumns ? column * k + i : i * 8 + column]);
        }
        ASSERT_EQ(c[row * 8 + column], sum) << "row " << row << ", column " << column;
      }
    }
  }
}

TEST_P(Ptx, PipelineWithRowMajorB) { test_pipeline<false>(); }
TEST_P(Ptx, PipelineWithColumnMajorB) { test_pipeline<true>(); }

// --- Acquire and release ---------------------------------------------------------------------------

/// Block 0 has numbers for block 1.
template <Scope kScope>
__global__ void send(unsigned* numbers, unsigned* flag, unsigned* out) {
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    numbers[t] = t + 1;
    __syncthreads();
    if (t == 0) store_release<kScope>(flag, 7);
  } else {
    if (t == 0) {
      while (load_acquire<kScope>(flag) != 7) continue;
    }
    __syncthreads();
    out[t] = 2 * numbers[t];
  }
}

template <Scope kScope>
void test_send() {
  Array<unsigned> numbers(64), flag(1), out(64);
  launch(send<kScope>, 2, 64, 0, nullptr, numbers, flag, out);
  const auto found = out.read();
  for (unsigned t = 0; t < 64; ++t) ASSERT_EQ(found[t], 2 * (t + 1)) << "thread " << t;
}

TEST_P(Ptx, AReleaseReachesAnotherBlock) { test_send<Scope::gpu>(); }
TEST_P(Ptx, AReleaseReachesTheSystem) { test_send<Scope::system>(); }

/// Warp 0 has a number for warp 1, with no barrier of the block.
__global__ void send_in_block(unsigned* number, unsigned* flag, unsigned* out) {
  if (threadIdx.x == 0) {
    *number = 5;
    store_release<Scope::block>(flag, 1);
  } else if (threadIdx.x == 32) {
    while (load_acquire<Scope::block>(flag) == 0) continue;
    *out = *number;
  }
}

TEST_P(Ptx, AReleaseReachesAnotherWarp) {
  Array<unsigned> number(1), flag(1), out(1);
  launch(send_in_block, 1, 64, 0, nullptr, number, flag, out);
  EXPECT_EQ(out.read()[0], 5u);
}

/// The last block adds what all have written.
__global__ void add_as_the_last(unsigned* numbers, unsigned* ended, unsigned* sum) {
  if (threadIdx.x != 0) return;
  numbers[blockIdx.x] = blockIdx.x + 1;
  if (add_acquire_release<Scope::gpu>(ended, 1) != gridDim.x - 1) return;
  unsigned all = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) all += numbers[i];
  *sum = all;
}

TEST_P(Ptx, AnAtomicAdditionAcquiresAndReleases) {
  Array<unsigned> numbers(20), ended(1), sum(1);
  launch(add_as_the_last, 20, 32, 0, nullptr, numbers, ended, sum);
  EXPECT_EQ(sum.read()[0], 210u);
  EXPECT_EQ(ended.read()[0], 20u);
}

}  // namespace
