// The products of wgmma, on both backends: every layout of its operands, element by element.
#pragma once

#include "gpu.hpp"

#include "arrays.hpp"
#include "device/ptx/tma.hpp"
#include "device/ptx/wgmma.hpp"
#include "swizzled.hpp"

namespace {

using ladder::bfloat16;
using ladder::float8_e4m3;
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

/// A warpgroup's product of slices as they lie in shared memory, one after the other. d[thread][i]
/// is what thread has in d[i]: as it was, with the product added, or the product alone.
template <class T, int N, class LayoutA, class LayoutB>
__global__ void __launch_bounds__(128)
    multiply(const T* a, int size_a, const T* b, int size_b, float* d, bool add) {
  T* const shared = ladder::dynamic_shared<T>();
  T* const slice_a = shared + (-shared_address(shared) & 1023) / sizeof(T);
  T* const slice_b = slice_a + size_a;  // a multiple of 1024 bytes
  for (int i = threadIdx.x; i < size_a; i += 128) slice_a[i] = a[i];
  for (int i = threadIdx.x; i < size_b; i += 128) slice_b[i] = b[i];
  fence_proxy_async();
  __syncthreads();

  float sum[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sum[i] = d[threadIdx.x * N / 2 + i];
  const auto from_a = wgmma_descriptor<LayoutA::kMajor, LayoutA::kRow, LayoutA::kLeading>(slice_a);
  const auto from_b = wgmma_descriptor<LayoutB::kMajor, LayoutB::kRow, LayoutB::kLeading>(slice_b);
  constexpr int kSteps = LayoutA::template kDepth<T> * sizeof(T) / 32;
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    wgmma<N, LayoutA::kMajor, LayoutB::kMajor, T>(sum, from_a + k * wgmma_step(LayoutA::kMajor),
                                                  from_b + k * wgmma_step(LayoutB::kMajor),
                                                  add || k > 0);
  }
  wgmma_commit_group();
  wgmma_wait_group<0>(sum);
#pragma unroll
  for (int i = 0; i < N / 2; ++i) d[threadIdx.x * N / 2 + i] = sum[i];
}

/// Small integers, of which all sums are exact: of e4m3 they keep 14 bits.
template <class T, int N, class LayoutA, class LayoutB>
void test_wgmma() {
  constexpr int M = 64, K = LayoutA::template kDepth<T>, kLargest = 8;
  static_assert(LayoutB::template kDepth<T> == K && K * kLargest * kLargest <= 1 << 13);
  for (const bool add : {false, true}) {
    const auto a = random_integers<T>(M * K, kLargest), b = random_integers<T>(N * K, kLargest);
    std::vector<T> slice_a(LayoutA::template size<T>(M)), slice_b(LayoutB::template size<T>(N));
    for (int k = 0; k < K; ++k) {
      for (int m = 0; m < M; ++m) slice_a[LayoutA::template at<T>(m, k)] = a[m * K + k];
      for (int n = 0; n < N; ++n) slice_b[LayoutB::template at<T>(n, k)] = b[n * K + k];
    }
    const auto before = random_integers<float>(M * N, 100);
    Array<T> array_a(slice_a), array_b(slice_b);
    Array<float> array_d(before);
    const auto size_a = static_cast<int>(slice_a.size()), size_b = static_cast<int>(slice_b.size());
    launch(multiply<T, N, LayoutA, LayoutB>, 1, 128, (size_a + size_b) * sizeof(T) + 1024, nullptr,
           array_a, size_a, array_b, size_b, array_d, add);
    const auto after = array_d.read();
    for (int thread = 0; thread < 128; ++thread) {
      for (int i = 0; i < N / 2; ++i) {
        const int lane = thread % 32, at = thread * N / 2 + i;
        const int row = thread / 32 * 16 + lane / 4 + i % 4 / 2 * 8;
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        float sum = add ? before[at] : 0;
        for (int k = 0; k < K; ++k) {
          sum += static_cast<float>(a[row * K + k]) * static_cast<float>(b[column * K + k]);
        }
        ASSERT_EQ(after[at], sum) << "64 x " << N << ", row " << row << ", column " << column
                                  << (add ? ", added" : "");
      }
    }
  }
}

template <class T, class LayoutA, class LayoutB>
void test_widths() {
  test_wgmma<T, 16, LayoutA, LayoutB>();
  test_wgmma<T, 64, LayoutA, LayoutB>();
  test_wgmma<T, 128, LayoutA, LayoutB>();
  test_wgmma<T, 192, LayoutA, LayoutB>();
  test_wgmma<T, 224, LayoutA, LayoutB>();
  test_wgmma<T, 256, LayoutA, LayoutB>();
}

/// Where the type's instructions are tried in all widths already.
template <class T, class LayoutA, class LayoutB>
void test_layout() {
  test_wgmma<T, 64, LayoutA, LayoutB>();
  test_wgmma<T, 224, LayoutA, LayoutB>();
}

using AlongK = Layout<Major::k>;
using AcrossK = Layout<Major::mn>;

TEST_P(Wgmma, F16) { test_widths<half, AlongK, AlongK>(); }
TEST_P(Wgmma, F16AAcrossK) { test_layout<half, AcrossK, AlongK>(); }
TEST_P(Wgmma, F16BAcrossK) { test_layout<half, AlongK, AcrossK>(); }
TEST_P(Wgmma, F16BothAcrossK) { test_layout<half, AcrossK, AcrossK>(); }
TEST_P(Wgmma, Bf16) { test_widths<bfloat16, AlongK, AlongK>(); }
TEST_P(Wgmma, Bf16BothAcrossK) { test_layout<bfloat16, AcrossK, AcrossK>(); }
TEST_P(Wgmma, Tf32) { test_widths<tfloat32, AlongK, AlongK>(); }
TEST_P(Wgmma, E4m3) { test_widths<float8_e4m3, AlongK, AlongK>(); }
TEST_P(Wgmma, RowsOf64Bytes) {
  test_wgmma<bfloat16, 128, Layout<Major::k, 64>, Layout<Major::k, 64>>();
  test_wgmma<tfloat32, 128, Layout<Major::k, 64>, Layout<Major::k, 64>>();
}
TEST_P(Wgmma, PanelsApart) {
  test_wgmma<bfloat16, 128, AlongK, Layout<Major::mn, 128, 12288>>();
  test_wgmma<bfloat16, 128, Layout<Major::mn, 128, 12288>, AcrossK>();
}

}  // namespace
