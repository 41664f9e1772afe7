// Two ways to store the accumulators of a warp, 16 rows in the layout of wgmma
// (device/ptx/wgmma.hpp), in C.
#pragma once

#include "device/ptx/stmatrix.hpp"
#include "device/row_span.hpp"
#include "device/vector.hpp"
#include "k_tiles.hpp"

namespace gemm_k_tiles {

/// The part of C that a warp stages in shared memory for a TMA store. A warp has two, so that while one
/// is stored the other is filled; or one, where shared memory is better used otherwise.
struct EpilogueTile {
  static constexpr int kRows = 16, kCols = 64;
  static constexpr int kElements = kRows * kCols;
};

/// Until the store from the epilogue tile that is now to be filled has read it, in tile number j of
/// kTiles. Of two held: the store before the last one, but at the beginning of an odd number the last one.
template <int kTiles, int kHeld = 2>
__device__ __forceinline__ void wait_for_epilogue_tile(int j) {
  if (kHeld == 1 || (kTiles % 2 == 1 && j == 0)) {
    ladder::ptx::bulk_wait_group_read<0>();
  } else {
    ladder::ptx::bulk_wait_group_read<1>();
  }
}

/// 16-bit C, from row `row` and column `column` on: one epilogue tile after the other, in the
/// swizzle of TMA: chunk c of row r is stored as chunk c ^ (r % 8), so that the 8 rows of a matrix
/// are in different banks. Where the columns are no multiple of 64, the last epilogue tile overlaps
/// the one before. Returns before TMA has read the last two.
template <int kHeld = 2, class T, int kAccumulators>
__device__ __forceinline__ void store_epilogue_tiles(const CUtensorMap& map, T* epilogue_tiles,
                                                     int row, int column,
                                                     const float (&acc)[kAccumulators]) {
  using namespace ladder::ptx;
  constexpr int kCols = kAccumulators * 2, kTiles = ladder::ceil_div(kCols, EpilogueTile::kCols);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int first = min(j * EpilogueTile::kCols, kCols - EpilogueTile::kCols);
    T* const epilogue_tile = epilogue_tiles + j % kHeld * EpilogueTile::kElements;
    if (lane == 0) wait_for_epilogue_tile<kTiles, kHeld>(j);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < EpilogueTile::kCols / 16; ++i) {  // 16 x 16: four matrices, left ones first
      const float* const s = acc + first / 2 + i * 8;
      const int r = lane % 16, chunk = i * 2 + lane / 16;
      stmatrix(
          epilogue_tile + r * EpilogueTile::kCols + (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      tensor_store(&map, column + first, row, epilogue_tile);
      bulk_commit_group();
    }
  }
}

constexpr int kUnalignedRows = 4;  // that a warp stores at once

/// Rows first, first + step, … of an epilogue tile, kUnalignedRows of them, go to rows `row + first`, … of C,
/// which may begin anywhere. Eight lanes store a row: the vectors that memory has as such, shifted out of
/// the two that hold each, and an element each of the eight that are left over at both ends.
template <class T>
__device__ __forceinline__ void store_unaligned(T* c, int m, int n, const T* epilogue_tile,
                                                int first, int step, int row, int column) {
  using Vec = ladder::Vec128<T>;
  constexpr int kLanes = EpilogueTile::kCols / Vec::size;
  static_assert(kLanes * kUnalignedRows == 32);
  const int lane = threadIdx.x % kLanes, r = first + threadIdx.x % 32 / kLanes * step, y = row + r;
  if (y >= m) return;
  const int most = min(n - column, EpilogueTile::kCols);
  T* const to = c + std::int64_t{y} * n + column;
  // Elements from the vector's beginning in which the row begins.
  const int before = static_cast<int>(reinterpret_cast<std::uintptr_t>(to) / sizeof(T) % Vec::size);
  auto chunk = [&](int i) {
    return epilogue_tile + r * EpilogueTile::kCols + (i ^ r % 8) * Vec::size;
  };

  const Vec low = Vec::load(chunk(before > 0 ? max(lane - 1, 0) : lane)),
            high = Vec::load(chunk(lane));
  const Vec vector = ladder::shifted(low, high, before > 0 ? Vec::size - before : 0);
  if (const int x = lane * Vec::size - before; x >= 0) {
    if (x + Vec::size <= most) {
      vector.store_whole(to + x);
    } else {
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        if (x + e < most) to[x + e] = vector[e];
      }
    }
  }
  if (before > 0) {
    const int x = lane < Vec::size - before ? lane : EpilogueTile::kCols - Vec::size + lane;
    if (x < most) to[x] = chunk(x / Vec::size)[x % Vec::size];
  }
}

/// The same of both epilogue tiles of a warp, kCols columns beside each other, and of all their rows. Sixteen
/// lanes store a row, which has half as many sectors that are not stored whole as two of 64 columns.
template <int kCols, class T>
__device__ __forceinline__ void store_both_unaligned(T* c, int m, int n, const T* epilogue_tiles,
                                                     int row, int column) {
  using Vec = ladder::Vec128<T>;
  constexpr unsigned kSize = Vec::size, kChunks = EpilogueTile::kCols / kSize, kLanes = 16;
  static_assert(kCols > EpilogueTile::kCols && kCols <= 2 * EpilogueTile::kCols);
  const unsigned lane = threadIdx.x % kLanes, most = max(min(n - column, kCols), 0);
  const unsigned rows = max(min(m - row, EpilogueTile::kRows), 0);
#pragma unroll 4
  for (unsigned r = threadIdx.x % 32 / kLanes; r < rows; r += 32 / kLanes) {
    T* const to = c + std::int64_t{row + r} * n + column;
    const auto start = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(to) / sizeof(T));
    const unsigned head = min(-start % kSize, most), vectors = (most - head) / kSize;
    auto chunk = [&](unsigned i) {
      return epilogue_tiles + i / kChunks * EpilogueTile::kElements + r * EpilogueTile::kCols +
             (i ^ r) % kChunks * kSize;
    };
    if (lane < vectors) {
      const Vec low = Vec::load(chunk(lane)), high = Vec::load(chunk(lane + (head > 0)));
      ladder::shifted(low, high, static_cast<int>(head)).store_whole(to + lane * kSize + head);
    }
    const unsigned x = lane < head ? lane : lane + vectors * kSize;
    if (x < most) to[x] = chunk(x / kSize)[x % kSize];
  }
}

/// What store_epilogue_tiles does, where rows of C begin anywhere. Of more than 64 columns it takes both
/// epilogue tiles.
template <class T, int kAccumulators>
__device__ __forceinline__ void store_rows(T* c, int m, int n, T* epilogue_tiles, int row,
                                           int column, const float (&acc)[kAccumulators]) {
  constexpr int kCols = kAccumulators * 2, kBoth = 2 * EpilogueTile::kCols;
  const int lane = threadIdx.x % 32;
  auto stage = [&](int first, int columns) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < columns / 16; ++i) {  // 16 x 16: four matrices, left ones first
      const float* const s = acc + first / 2 + i * 8;
      const int r = lane % 16, chunk = i % 4 * 2 + lane / 16;
      ladder::ptx::stmatrix(
          epilogue_tiles + i / 4 * EpilogueTile::kElements + r * EpilogueTile::kCols +
              (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    __syncwarp();
  };
#pragma unroll
  for (int first = 0; first + kBoth <= kCols; first += kBoth) {
    stage(first, kBoth);
    store_both_unaligned<kBoth>(c, m, n, epilogue_tiles, row, column + first);
  }
  constexpr int kRest = kCols % kBoth;
  if constexpr (kRest > EpilogueTile::kCols) {
    stage(kCols - kRest, kRest);
    store_both_unaligned<kRest>(c, m, n, epilogue_tiles, row, column + kCols - kRest);
  } else if constexpr (kRest > 0) {  // beside columns that are stored already, so that there are 64
    constexpr int kFirst = kCols - EpilogueTile::kCols;
    stage(kFirst, EpilogueTile::kCols);
#pragma unroll 1
    for (int r = 0; r < EpilogueTile::kRows; r += kUnalignedRows) {
      store_unaligned(c, m, n, epilogue_tiles, r, 1, row, column + kFirst);
    }
  }
}

/// fp32 C of m x n, straight from registers: four lanes store a sector.
template <int kAccumulators>
__device__ __forceinline__ void store_pairs(float* c, int m, int n, int row, int column,
                                            const float (&acc)[kAccumulators]) {
  const int lane = threadIdx.x % 32;
  const bool pairs = n % 2 == 0 && reinterpret_cast<std::uintptr_t>(c) % sizeof(float2) == 0;
#pragma unroll
  for (int i = 0; i < kAccumulators; i += 2) {
    const int y = row + lane / 4 + i / 2 % 2 * 8, x = column + lane % 4 * 2 + i / 4 * 8;
    if (y >= m || x >= n) continue;
    float* const to = c + std::int64_t{y} * n + x;
    if (pairs) {
      *reinterpret_cast<float2*>(to) = make_float2(acc[i], acc[i + 1]);
    } else {
      to[0] = acc[i];
      if (x + 1 < n) to[1] = acc[i + 1];
    }
  }
}

/// The same of accumulators of C's transpose: eight lanes store a sector.
template <int kAccumulators>
__device__ __forceinline__ void store_transposed(float* c, int m, int n, int row, int column,
                                                 const float (&acc)[kAccumulators]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) {
    const int y = row + lane % 4 * 2 + i / 4 * 8 + i % 2, x = column + lane / 4 + i / 2 % 2 * 8;
    if (y < m && x < n) c[std::int64_t{y} * n + x] = acc[i];
  }
}

/// C as the parameter of a kernel, and how it is stored: 16-bit elements through epilogue tiles and
/// TMA.
template <class C>
struct Destination {
  static constexpr std::size_t kBytesPerWarp = 2 * EpilogueTile::kElements * sizeof(C);

  Destination(C* c, int m, int n) : map(output_map(c, m, n, EpilogueTile::kRows)) {}

  /// `epilogue_tiles` are the warp's; row and column are where its 16 rows begin.
  template <int kAccumulators>
  __device__ __forceinline__ void store(C* epilogue_tiles, int row, int column,
                                        const float (&acc)[kAccumulators]) const {
    store_epilogue_tiles(map, epilogue_tiles, row, column, acc);
  }

  CUtensorMap map;
};

/// Of fp32 from registers.
template <>
struct Destination<float> {
  static constexpr std::size_t kBytesPerWarp = 0;

  Destination(float* to, int rows, int columns) : c(to), m(rows), n(columns) {}

  template <int kAccumulators>
  __device__ __forceinline__ void store(float*, int row, int column,
                                        const float (&acc)[kAccumulators]) const {
    store_pairs(c, m, n, row, column, acc);
  }

  float* c;
  int m, n;
};

}  // namespace gemm_k_tiles
