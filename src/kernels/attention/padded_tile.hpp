// Rows of a head in shared memory, 16 bytes further apart than they are long: eight rows that
// ldmatrix reads together lie in all banks once.
#pragma once

#include "device/ptx/ldmatrix.hpp"
#include "device/vector.hpp"

template <class T, int kRows, int kColumns>
struct PaddedTile {
  static constexpr int kPitch = kColumns + 8;
  alignas(16) T element[kRows * kPitch];

  __device__ T* at(int row, int column) { return &element[row * kPitch + column]; }

  /// All threads of the block copy as much as there is of `rows` rows of `columns` elements, which is
  /// a multiple of 8; the rest is zero.
  __device__ void load(const T* from, std::int64_t pitch, int rows, int columns = kColumns) {
    constexpr int kChunk = 8, kChunks = kColumns / kChunk;
    for (int i = threadIdx.x; i < kRows * kChunks; i += blockDim.x) {
      const int row = i / kChunks, column = i % kChunks * kChunk;
      ladder::Vec128<T> v{};
      if (row < rows && column < columns) v = ladder::Vec128<T>::load(from + row * pitch + column);
      v.store(at(row, column));
    }
  }

  /// 16 x 16 elements from a row and a column on, as mma wants A.
  __device__ void fragment_a(std::uint32_t (&a)[4], int row, int column, int lane) {
    ladder::ptx::ldmatrix(a, at(row + lane % 16, column + lane / 16 * 8));
  }
  /// The same of a tile whose columns are A's rows: from a row, along A's columns, and a column on.
  __device__ void fragment_a_trans(std::uint32_t (&a)[4], int row, int column, int lane) {
    ladder::ptx::ldmatrix_trans(a, at(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8));
  }
  /// Two fragments of B, for 16 of its columns, which are rows here.
  __device__ void fragments_b(std::uint32_t (&b)[4], int row, int column, int lane) {
    ladder::ptx::ldmatrix(b, at(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8));
  }
  /// The same where the columns of B are columns.
  __device__ void fragments_b_trans(std::uint32_t (&b)[4], int row, int column, int lane) {
    ladder::ptx::ldmatrix_trans(b, at(row + lane % 16, column + lane / 16 * 8));
  }
};
