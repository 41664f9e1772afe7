// How rows that are in flight to shared memory before they are needed (rows_ahead.hpp) are
// partitioned among the blocks of a cluster, and how much of a block's shared memory is for what.
#pragma once

#include "device/kernel.hpp"

namespace ladder {

/// The columns of every row that are one block's, of a cluster of `blocks`: the same number of
/// sectors of 32 bytes for each, or one more. The last sector, of the last block, need not be whole.
template <class T>
struct RowPartition {
  static constexpr int kSector = 32 / sizeof(T);
  int first, cols;

  __host__ __device__ RowPartition(int all, int rank, int blocks) {
    first = boundary(all, rank, blocks);
    cols = boundary(all, rank + 1, blocks) - first;
  }

  /// The columns that a block has at most.
  __host__ __device__ static int most(int all, int blocks) {
    return within(all, ceil_div(sectors(all), blocks));
  }

  /// The rank of the block that has column c.
  __host__ __device__ static int rank_of(int c, int all, int blocks) {
    return static_cast<int>((std::int64_t{c / kSector + 1} * blocks - 1) / sectors(all));
  }

 private:
  __host__ __device__ static int sectors(int cols) { return ceil_div(cols, kSector); }
  __host__ __device__ static int within(int all, int sectors) {  // their columns
    return sectors * kSector < all ? sectors * kSector : all;
  }
  __host__ __device__ static int boundary(int all, int rank, int blocks) {
    return within(all, static_cast<int>(std::int64_t{sectors(all)} * rank / blocks));
  }
};

/// The bytes of an array that hold a block's part of a row and that a bulk copy can bring: from
/// the multiple of 32 bytes before the part to the multiple of 16 behind it, but not beyond the
/// array. Its last bytes, where they are no whole 16, are left to ordinary loads.
template <class T>
struct RowWindow {
  static constexpr int kSize = 16 / sizeof(T);
  std::int64_t begin;  // element
  int elements;

  /// The part begins with element `from` of an array of `all`.
  __host__ __device__ RowWindow(std::int64_t from, int cols, std::int64_t all)
      : RowWindow(from, cols) {
    if (elements > all - begin) elements = static_cast<int>(all - begin) & -kSize;
  }
  /// Of an array that does not end in the part's last vector.
  __host__ __device__ RowWindow(std::int64_t from, int cols) {
    const int offset = offset_of(from);
    begin = from - offset;
    elements = (offset + cols + kSize - 1) & -kSize;
  }

  /// How far behind the window's beginning element `from` is.
  __host__ __device__ static int offset_of(std::int64_t from) {
    return static_cast<int>(from & (RowPartition<T>::kSector - 1));
  }
};

/// Dynamic shared memory of a block, of which one fits an SM: parameters that all rows need, then
/// stages, each for a row in flight. Each takes as much as a window at most, and begins at a multiple
/// of 128 bytes.
struct RowStages {
  static constexpr std::size_t kBytes = 226 * 1024;  // 1 KiB less than a block may have
  static constexpr int kWanted = 2;  // one row in flight while another waits to be used
  static constexpr int kMost = 3;    // of more, when the last are there, none is read meanwhile

  int elements;  // of a stage
  int count;     // 0 or less: they do not fit
};

template <class T>
RowStages row_stages(int cols, int blocks, int parameters) {
  const int most = RowPartition<T>::most(cols, blocks);
  const std::size_t bytes = ceil_div(most * sizeof(T) + 32 + 16, std::size_t{128}) * 128;
  const int count = static_cast<int>(RowStages::kBytes / bytes) - parameters;
  return {static_cast<int>(bytes / sizeof(T)), count < RowStages::kMost ? count : RowStages::kMost};
}

/// A cluster for a row, and what each of its blocks has in shared memory.
struct RowPlan {
  int blocks;  // 0: none holds the row
  RowStages stages;
};

/// The smallest cluster whose blocks hold the row in registers, `vectors` of 16 bytes each, and
/// have room for kWanted rows more. If none has, the largest that has room for one.
template <class T>
RowPlan plan_rows_ahead(int cols, int vectors, int parameters) {
  RowPlan plan{0, {}};
  for (const int blocks : {1, 2, 4, 8}) {
    const RowStages stages = row_stages<T>(cols, blocks, parameters);
    constexpr int kSize = 16 / sizeof(T);
    if (RowPartition<T>::most(cols, blocks) / kSize > vectors) continue;
    if (stages.count >= 1) plan = {blocks, stages};
    if (stages.count >= RowStages::kWanted) break;
  }
  return plan;
}

}  // namespace ladder
