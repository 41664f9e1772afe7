// Two ways for the sums of a warp, 16 rows as wgmma leaves them (device/ptx/wgmma.hpp), into C.
#pragma once

#include "device/ptx/stmatrix.hpp"
#include "k_tiles.hpp"

namespace gemm_slices {

/// A part of C on its way from registers to TMA. A warp has two: while one is stored the other is
/// filled.
struct Patch {
  static constexpr int kRows = 16, kCols = 64;
  static constexpr int kElements = kRows * kCols;
};

/// 16-bit C, from row `row` and column `column` on: patches in turn, in the swizzle of TMA: chunk c
/// of row r lies in place c ^ (r % 8), and the 8 rows of a matrix in 8 different places. Where
/// patches do not come out even, the last one begins earlier and brings some sums a second time.
/// Returns before the last two patches are read.
template <class T, int kSums>
__device__ __forceinline__ void store_patches(const CUtensorMap& map, T* patches, int row,
                                              int column, const float (&sum)[kSums]) {
  using namespace ladder::ptx;
  constexpr int kCols = kSums * 2, kPatches = ladder::ceil_div(kCols, Patch::kCols);
  static_assert(kPatches % 2 == 0, "the next call begins with the other patch than this one ends");
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kPatches; ++j) {
    const int first = min(j * Patch::kCols, kCols - Patch::kCols);
    T* const patch = patches + j % 2 * Patch::kElements;
    if (lane == 0) bulk_wait_group_read<1>();  // the store before the last one has read it
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Patch::kCols / 16; ++i) {  // 16 x 16: four matrices, left ones first
      const float* const s = sum + first / 2 + i * 8;
      const int r = lane % 16, chunk = i * 2 + lane / 16;
      stmatrix(
          patch + r * Patch::kCols + (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      tensor_store(&map, column + first, row, patch);
      bulk_commit_group();
    }
  }
}

/// fp32 C of m x n, straight from registers: four lanes have a sector.
template <int kSums>
__device__ __forceinline__ void store_pairs(float* c, int m, int n, int row, int column,
                                            const float (&sum)[kSums]) {
  const int lane = threadIdx.x % 32;
  const bool pairs = n % 2 == 0 && reinterpret_cast<std::uintptr_t>(c) % sizeof(float2) == 0;
#pragma unroll
  for (int i = 0; i < kSums; i += 2) {
    const int y = row + lane / 4 + i / 2 % 2 * 8, x = column + lane % 4 * 2 + i / 4 * 8;
    if (y >= m || x >= n) continue;
    float* const to = c + std::int64_t{y} * n + x;
    if (pairs) {
      *reinterpret_cast<float2*>(to) = make_float2(sum[i], sum[i + 1]);
    } else {
      to[0] = sum[i];
      if (x + 1 < n) to[1] = sum[i + 1];
    }
  }
}

/// C as the parameter of a kernel, and the way into it: of 16 bits through patches and TMA.
template <class C>
struct Destination {
  static constexpr std::size_t kBytesPerWarp = 2 * Patch::kElements * sizeof(C);

  Destination(C* c, int m, int n) : map(output_map(c, m, n, Patch::kRows)) {}

  /// `patches` are the warp's; row and column are where its 16 rows begin.
  template <int kSums>
  __device__ __forceinline__ void store(C* patches, int row, int column,
                                        const float (&sum)[kSums]) const {
    store_patches(map, patches, row, column, sum);
  }

  CUtensorMap map;
};

/// Of fp32 from registers.
template <>
struct Destination<float> {
  static constexpr std::size_t kBytesPerWarp = 0;

  Destination(float* to, int rows, int columns) : c(to), m(rows), n(columns) {}

  template <int kSums>
  __device__ __forceinline__ void store(float*, int row, int column,
                                        const float (&sum)[kSums]) const {
    store_pairs(c, m, n, row, column, sum);
  }

  float* c;
  int m, n;
};

}  // namespace gemm_slices
