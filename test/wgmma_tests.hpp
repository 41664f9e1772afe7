// The products of wgmma, on both backends: every layout of its operands and every type, element by
// element.
#pragma once

#include "gpu.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "arrays.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "swizzled.hpp"

namespace {

using ladder::bfloat16;
using ladder::float8_e4m3;
using ladder::float8_e5m2;
using ladder::half;
using ladder::launch;
using ladder::tfloat32;
using namespace ladder::ptx;

class Wgmma : public GpuTest<90, 90> {};
INSTANTIATE_TEST_SUITE_P(Order, Wgmma, LADDER_ORDERS);

/// How a slice of A or B lies in shared memory: rows of kRow bytes and, where M or N is the major
/// index, panels of 64 of it that are kLeading bytes apart.
template <Major major, int row = 128, int leading = 8192>
struct Layout {
  static constexpr Major kMajor = major;
  static constexpr int kRow = row, kLeading = leading;

  /// The slice's depth, elements of K.
  template <class T>
  static constexpr int kDepth = major == Major::k ? row / int{sizeof(T)} : 64;

  /// Elements that `mn` of M or N take.
  template <class T>
  static int size(int mn) {
    return (major == Major::k ? mn * row : (mn + 63) / 64 * leading) / int{sizeof(T)};
  }
  /// Where element (mn, k) is.
  template <class T>
  static int at(int mn, int k) {
    constexpr int kChunk = 16 / sizeof(T);
    if (major == Major::k) return swizzled(mn, k / kChunk, row) * kChunk + k % kChunk;
    return mn / 64 * leading / int{sizeof(T)} + swizzled(k, mn % 64 / kChunk) * kChunk +
           mn % kChunk;
  }
};

/// Random elements: small integers, of which all sums are exact (of fp8 they keep 14 bits), or any
/// integers that T has.
template <class T>
std::vector<T> random_elements(std::size_t size) {
  if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    return random_values<T>(size, std::uniform_int_distribution<int>(Limits::min(), Limits::max()));
  } else {
    return random_integers<T>(size, 8);
  }
}

template <class Layout, class T>
std::vector<T> slice_of(const std::vector<T>& matrix, int mn) {
  constexpr int K = Layout::template kDepth<T>;
  std::vector<T> slice(Layout::template size<T>(mn));
  for (int i = 0; i < mn * K; ++i) slice[Layout::template at<T>(i / K, i % K)] = matrix[i];
  return slice;
}

/// The value of an element, as sums have it.
template <class T>
WgmmaSum<T> value_of(T element) {
  return static_cast<WgmmaSum<T>>(element);
}

/// after[thread][i] is what thread has in d[i].
template <class A, class B>
void expect_product(int n, int k, const std::vector<A>& a, const std::vector<B>& b,
                    const std::vector<WgmmaSum<A>>& before, const std::vector<WgmmaSum<A>>& after,
                    bool add) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < n / 2; ++i) {
      const int lane = thread % 32, at = thread * n / 2 + i;
      const int row = thread / 32 * 16 + lane / 4 + i % 4 / 2 * 8;
      const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      WgmmaSum<A> sum = add ? before[at] : 0;
      for (int j = 0; j < k; ++j) sum += value_of(a[row * k + j]) * value_of(b[column * k + j]);
      ASSERT_EQ(after[at], sum) << "64 x " << n << ", row " << row << ", column " << column
                                << (add ? ", added" : "");
    }
  }
}

/// Copies a slice to shared memory.
template <class T>
__device__ void fill_slice(T* slice, const T* from, int size) {
  for (int i = threadIdx.x; i < size; i += 128) slice[i] = from[i];
}
/// Dynamic shared memory from a multiple of 1024 bytes on.
__device__ inline unsigned char* slices() {
  unsigned char* const shared = ladder::dynamic_shared<unsigned char>();
  return shared + (-shared_address(shared) & 1023);
}
template <class Layout>
__device__ std::uint64_t descriptor_of(const void* slice) {
  return wgmma_descriptor<Layout::kMajor, Layout::kRow, Layout::kLeading>(slice);
}

/// A warpgroup's product of slices as they lie in shared memory, one after the other. d[thread][i]
/// is what thread has in d[i]: as it was, with the product added, or the product alone.
template <class A, class B, int N, class LayoutA, class LayoutB>
__global__ void __launch_bounds__(128)
    multiply(const A* a, int size_a, const B* b, int size_b, WgmmaSum<A>* d, bool add) {
  A* const slice_a = reinterpret_cast<A*>(slices());
  B* const slice_b = reinterpret_cast<B*>(slice_a + size_a);  // a multiple of 1024 bytes
  fill_slice(slice_a, a, size_a);
  fill_slice(slice_b, b, size_b);
  fence_proxy_async();
  __syncthreads();

  WgmmaSum<A> sum[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sum[i] = d[threadIdx.x * N / 2 + i];
  const auto from_a = descriptor_of<LayoutA>(slice_a), from_b = descriptor_of<LayoutB>(slice_b);
  constexpr int kSteps = LayoutA::template kDepth<A> * sizeof(A) / 32;
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    wgmma<N, LayoutA::kMajor, LayoutB::kMajor, A, B>(sum, from_a + k * wgmma_step(LayoutA::kMajor),
                                                     from_b + k * wgmma_step(LayoutB::kMajor),
                                                     add || k > 0);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>(sum);
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[threadIdx.x * N / 2 + i] = sum[i];
}

template <class T, int N, class LayoutA, class LayoutB, class B = T>
void test_wgmma() {
  constexpr int M = 64, K = LayoutA::template kDepth<T>;
  static_assert(LayoutB::template kDepth<B> == K && K * 8 * 8 <= 1 << 13);
  for (const bool add : {false, true}) {
    const auto a = random_elements<T>(M * K);
    const auto b = random_elements<B>(N * K);
    const auto before = random_integers<WgmmaSum<T>>(M * N, 100);
    Array<T> array_a(slice_of<LayoutA>(a, M));
    Array<B> array_b(slice_of<LayoutB>(b, N));
    Array<WgmmaSum<T>> array_d(before);
    const int size_a = LayoutA::template size<T>(M), size_b = LayoutB::template size<B>(N);
    launch(multiply<T, B, N, LayoutA, LayoutB>, 1, 128, (size_a + size_b) * sizeof(T) + 1024,
           nullptr, array_a, size_a, array_b, size_b, array_d, add);
    expect_product(N, K, a, b, before, array_d.read(), add);
  }
}

/// The same with A in registers: a[thread][step] are a thread's.
template <class A, class B, int N, class LayoutB>
__global__ void __launch_bounds__(128)
    multiply_registers(const std::uint32_t* a, const B* b, int size_b, WgmmaSum<A>* d, bool add) {
  B* const slice_b = reinterpret_cast<B*>(slices());
  fill_slice(slice_b, b, size_b);
  fence_proxy_async();
  __syncthreads();

  constexpr int kSteps = LayoutB::template kDepth<B> * sizeof(B) / 32;
  WgmmaSum<A> sum[N / 2];
  std::uint32_t from_a[kSteps][4];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sum[i] = d[threadIdx.x * N / 2 + i];
#pragma unroll
  for (int i = 0; i < kSteps * 4; ++i) from_a[i / 4][i % 4] = a[threadIdx.x * kSteps * 4 + i];
  const auto from_b = descriptor_of<LayoutB>(slice_b);
  wgmma_fence(sum, from_a);
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    wgmma<N, LayoutB::kMajor, A, B>(sum, from_a[k], from_b + k * wgmma_step(LayoutB::kMajor),
                                    add || k > 0);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>(sum, from_a);
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[threadIdx.x * N / 2 + i] = sum[i];
}

/// The registers of A, 64 x k, by thread and step.
template <class T>
std::vector<std::uint32_t> registers_of(const std::vector<T>& a, int k) {
  constexpr int kPerWord = 4 / sizeof(T);
  const int words = k / kPerWord;
  std::vector<std::uint32_t> registers(64 * words);
  for (int i = 0; i < 64 * words; ++i) {
    const int thread = i / (words / 2), step = i / 4 % (words / 8);
    const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
    const int word = step * 8 + thread % 4 + i % 4 / 2 * 4;
    std::memcpy(&registers[i], &a[row * k + word * kPerWord], sizeof(registers[i]));
  }
  return registers;
}

template <class T, int N, class LayoutB, class B = T>
void test_registers() {
  constexpr int M = 64, K = LayoutB::template kDepth<B>;
  for (const bool add : {false, true}) {
    const auto a = random_elements<T>(M * K);
    const auto b = random_elements<B>(N * K);
    const auto before = random_integers<WgmmaSum<T>>(M * N, 100);
    Array<std::uint32_t> array_a(registers_of(a, K));
    Array<B> array_b(slice_of<LayoutB>(b, N));
    Array<WgmmaSum<T>> array_d(before);
    const int size_b = LayoutB::template size<B>(N);
    launch(multiply_registers<T, B, N, LayoutB>, 1, 128, size_b * sizeof(B) + 1024, nullptr,
           array_a, array_b, size_b, array_d, add);
    expect_product(N, K, a, b, before, array_d.read(), add);
  }
}

using AlongK = Layout<Major::k>;
using AcrossK = Layout<Major::mn>;

template <class T, class LayoutA, class LayoutB, int... kWidths>
void test_widths() {
  (test_wgmma<T, kWidths, LayoutA, LayoutB>(), ...);
}
template <class T, class LayoutB, int... kWidths>
void test_register_widths() {
  (test_registers<T, kWidths, LayoutB>(), ...);
}

/// Where the type's instructions are tried in all widths already.
template <class T, class LayoutA, class LayoutB>
void test_layout() {
  test_widths<T, LayoutA, LayoutB, 64, 224>();
}
/// Of kinds that differ from others in nothing but the type.
template <class A, class B>
void test_types() {
  test_wgmma<A, 24, AlongK, AlongK, B>();
  test_wgmma<A, 176, AlongK, AlongK, B>();
  test_registers<A, 128, AlongK, B>();
}

TEST_P(Wgmma, F16) {
  test_widths<half, AlongK, AlongK, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192,
              208, 224, 240, 256>();
}
TEST_P(Wgmma, F16AAcrossK) { test_layout<half, AcrossK, AlongK>(); }
TEST_P(Wgmma, F16BAcrossK) { test_layout<half, AlongK, AcrossK>(); }
TEST_P(Wgmma, F16BothAcrossK) { test_layout<half, AcrossK, AcrossK>(); }
TEST_P(Wgmma, Bf16) { test_widths<bfloat16, AlongK, AlongK, 8, 16, 64, 128, 192, 256>(); }
TEST_P(Wgmma, Bf16BothAcrossK) { test_layout<bfloat16, AcrossK, AcrossK>(); }
TEST_P(Wgmma, Tf32) { test_widths<tfloat32, AlongK, AlongK, 16, 64, 128, 192, 224, 256>(); }
TEST_P(Wgmma, E4m3) { test_widths<float8_e4m3, AlongK, AlongK, 16, 64, 128, 192, 256>(); }
TEST_P(Wgmma, E5m2) { test_types<float8_e5m2, float8_e5m2>(); }
TEST_P(Wgmma, E4m3ByE5m2) { test_types<float8_e4m3, float8_e5m2>(); }
TEST_P(Wgmma, E5m2ByE4m3) { test_types<float8_e5m2, float8_e4m3>(); }
/// 1 and, in row r, a product of 2^-(9 + r % 7): what lies more than 13 bits behind the largest
/// number is cut off.
template <class T, class Layout>
void test_cut() {
  constexpr int M = 64, N = 8, K = Layout::template kDepth<T>;
  std::vector<T> a(M * K), b(N * K);
  for (int row = 0; row < M; ++row) {
    a[row * K] = T(1.f);
    a[row * K + 1] = T(std::ldexp(1.f, -3 - row % 7));
  }
  for (int column = 0; column < N; ++column) {
    b[column * K] = T(1.f);
    b[column * K + 1] = T(std::ldexp(1.f, -6));
  }
  const int size_a = Layout::template size<T>(M), size_b = Layout::template size<T>(N);
  Array<T> array_a(slice_of<Layout>(a, M)), array_b(slice_of<Layout>(b, N));
  Array<float> array_d(M * N);
  launch(multiply<T, T, N, Layout, Layout>, 1, 128, size_a + size_b + 1024, nullptr, array_a,
         size_a, array_b, size_b, array_d, false);
  const auto sums = array_d.read();
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < N / 2; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8, bits = 9 + row % 7;
      ASSERT_EQ(sums[thread * N / 2 + i], bits <= 13 ? 1 + std::ldexp(1.f, -bits) : 1)
          << bits << " bits behind the first";
    }
  }
}
TEST_P(Wgmma, Fp8SumsAreCutOff) {
  test_cut<float8_e4m3, AlongK>();
  test_cut<float8_e5m2, AlongK>();
}
TEST_P(Wgmma, S8) { test_widths<std::int8_t, AlongK, AlongK, 8, 64, 240>(); }
TEST_P(Wgmma, U8) { test_types<std::uint8_t, std::uint8_t>(); }
TEST_P(Wgmma, S8ByU8) { test_types<std::int8_t, std::uint8_t>(); }
TEST_P(Wgmma, U8ByS8) { test_types<std::uint8_t, std::int8_t>(); }
TEST_P(Wgmma, F16FromRegisters) {
  test_register_widths<half, AlongK, 64>();
  test_register_widths<half, AcrossK, 128>();
}
TEST_P(Wgmma, Bf16FromRegisters) {
  test_register_widths<bfloat16, AcrossK, 8, 24, 64, 96, 128, 176, 256>();
  test_register_widths<bfloat16, AlongK, 64>();
}
TEST_P(Wgmma, Tf32FromRegisters) { test_register_widths<tfloat32, AlongK, 8, 128>(); }
TEST_P(Wgmma, E4m3FromRegisters) { test_register_widths<float8_e4m3, AlongK, 8, 256>(); }
TEST_P(Wgmma, S8FromRegisters) { test_register_widths<std::int8_t, AlongK, 8, 64>(); }
TEST_P(Wgmma, RowsOf64Bytes) {
  test_wgmma<bfloat16, 128, Layout<Major::k, 64>, Layout<Major::k, 64>>();
  test_wgmma<tfloat32, 128, Layout<Major::k, 64>, Layout<Major::k, 64>>();
}
TEST_P(Wgmma, PanelsApart) {
  test_wgmma<bfloat16, 128, AlongK, Layout<Major::mn, 128, 12288>>();
  test_wgmma<bfloat16, 128, Layout<Major::mn, 128, 12288>, AcrossK>();
}

/// P = Q * K, 64 x 64, becomes the A of O = P * V, 64 x 128, as in attention.
__global__ void __launch_bounds__(128)
    multiply_twice(const half* q, const half* k, const half* v, float* o) {
  half* const slice_q = reinterpret_cast<half*>(slices());
  half *const slice_k = slice_q + 64 * 64, *const slice_v = slice_k + 64 * 64;
  fill_slice(slice_q, q, 64 * 64);
  fill_slice(slice_k, k, 64 * 64);
  fill_slice(slice_v, v, 64 * 128);
  fence_proxy_async();
  __syncthreads();

  float p[32], sum[64];
  const auto from_q = descriptor_of<AlongK>(slice_q), from_k = descriptor_of<AlongK>(slice_k);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    wgmma<64, Major::k, Major::k, half>(p, from_q + step * wgmma_step(Major::k),
                                        from_k + step * wgmma_step(Major::k), step > 0);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>(p);

  std::uint32_t a[4][4];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const half2 pair = __floats2half2_rn(p[2 * i], p[2 * i + 1]);
    std::memcpy(&a[i / 4][i % 4], &pair, sizeof(pair));
  }
  const auto from_v = descriptor_of<AcrossK>(slice_v);
  wgmma_fence(a);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    wgmma<128, Major::mn, half>(sum, a[step], from_v + step * wgmma_step(Major::mn), step > 0);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>(sum, a);
#pragma unroll
  for (int i = 0; i < 64; ++i) o[threadIdx.x * 64 + i] = sum[i];
}

TEST_P(Wgmma, AProductsResultIsTheNextOnesA) {
  const auto q = random_integers<half>(64 * 64, 4), k = random_integers<half>(64 * 64, 4);
  const auto v = random_integers<half>(128 * 64, 8);
  std::vector<float> p(64 * 64);  // at most 1024: exact in f16
  for (int i = 0; i < 64 * 64; ++i) {
    for (int j = 0; j < 64; ++j)
      p[i] += value_of(q[i / 64 * 64 + j]) * value_of(k[i % 64 * 64 + j]);
  }
  Array<half> array_q(slice_of<AlongK>(q, 64)), array_k(slice_of<AlongK>(k, 64)),
      array_v(slice_of<AcrossK>(v, 128));
  Array<float> array_o(64 * 128);
  launch(multiply_twice, 1, 128, 4 * 64 * 64 * sizeof(half) + 1024, nullptr, array_q, array_k,
         array_v, array_o);
  expect_product(128, 64, std::vector<half>(p.begin(), p.end()), v, {}, array_o.read(), false);
}

}  // namespace
