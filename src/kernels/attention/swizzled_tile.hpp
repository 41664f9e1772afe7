// Rows of a head in shared memory without gaps. Chunk c (16 bytes) of row r lies as chunk c ^ (r % 8):
// a chunk of each of eight rows, which ldmatrix reads together, is all 32 banks once.
#pragma once

#include "device/ptx/cp_async.hpp"
#include "device/ptx/ldmatrix.hpp"

template <class T, int kRows, int kColumns>
struct SwizzledTile {
  static constexpr int kChunk = 8, kChunks = kColumns / kChunk;
  static_assert(kChunks % 8 == 0, "the swizzle stays within a row");
  alignas(128) T element[kRows * kColumns];

  __device__ T* chunk(int row, int c) { return &element[row * kColumns + (c ^ row % 8) * kChunk]; }

  /// All threads of the block, kThreads, start to copy the first rows of `rows`; what lies behind
  /// them becomes zero.
  template <int kThreads>
  __device__ void copy(const T* from, std::int64_t pitch, int rows) {
    constexpr int kRowsAtOnce = kThreads / kChunks;
    static_assert(kRows % kRowsAtOnce == 0);
    const int row = threadIdx.x / kChunks, c = threadIdx.x % kChunks;
#pragma unroll
    for (int i = 0; i < kRows; i += kRowsAtOnce) {
      const bool exists = row + i < rows;
      ladder::ptx::cp_async<16>(chunk(row + i, c),
                                exists ? from + (row + i) * pitch + c * kChunk : from,
                                exists ? 16 : 0);
    }
  }

  /// 16 x 16 elements from a row and a chunk on, as mma wants A.
  __device__ void fragment_a(std::uint32_t (&a)[4], int row, int c, int lane) {
    ladder::ptx::ldmatrix(a, chunk(row + lane % 16, c + lane / 16));
  }
  /// Two fragments of B, for 16 of its columns, which are rows here.
  __device__ void fragments_b(std::uint32_t (&b)[4], int row, int c, int lane) {
    ladder::ptx::ldmatrix(b, chunk(row + lane % 8 + lane / 16 * 8, c + lane / 8 % 2));
  }
  /// The same where the columns of B are columns.
  __device__ void fragments_b_trans(std::uint32_t (&b)[4], int row, int c, int lane) {
    ladder::ptx::ldmatrix_trans(b, chunk(row + lane % 16, c + lane / 16));
  }
};
