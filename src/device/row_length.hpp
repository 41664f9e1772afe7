// How kernels that hold a row of a matrix in registers spread it over threads: by its length.
#pragma once

#include "device/vector.hpp"

namespace ladder {

/// A vector of one element, for rows that are no whole number of 128-bit vectors.
template <class T>
struct Vec1 {
  static constexpr int size = 1;
  T element;

  __device__ T& operator[](int) { return element; }
  __device__ const T& operator[](int) const { return element; }
  __device__ static Vec1 load(const T* from) { return {*from}; }
  __device__ void store(T* to) const { *to = element; }
  // Vec128's
  __device__ void store_whole(T* to) const { store(to); }
  __device__ static Vec1 load_streaming(const T* from) { return {__ldcs(from)}; }
  __device__ void store_streaming(T* to) const { __stcs(to, element); }
};

/// How a row is held: by kThreads threads, kElements elements in each; whether all of it is.
template <class Vec_, int kThreads_, int kElements_, bool kHoldsAll_ = true>
struct Row {
  using Vec = Vec_;
  static constexpr int kThreads = kThreads_;
  static constexpr int kElements = kElements_;            // of a thread
  static constexpr int kVectors = kElements / Vec::size;  // of a thread
  static constexpr int kBlock = kThreads < 128 ? 128 : kThreads;
  static constexpr int kRows = kBlock / kThreads;     // of a block
  static constexpr int kLeastBlocks = 1024 / kBlock;  // of a multiprocessor
  static constexpr bool kHoldsAll = kHoldsAll_;
};

/// Calls launch(Row<…>{}) with the smallest of these that holds a row of `cols` elements.
///
/// A row of up to 32 * kMost elements belongs to a warp, which needs no barrier, and shares its
/// block with three others; a longer one belongs to a block. A thread holds at most kMost elements,
/// 128 bytes of registers for 32 floats, so that 64 registers are enough for it and 1024 threads
/// fit a multiprocessor. What of a row is beyond 1024 * kMost elements is not held.
template <class Vec, int kMost = 32, class Launch>
void launch_smallest_row(int cols, Launch launch) {
  if constexpr (kMost / 4 >= Vec::size) {
    if (cols <= 32 * kMost / 4) return launch(Row<Vec, 32, kMost / 4>{});
  }
  if (cols <= 32 * kMost / 2) return launch(Row<Vec, 32, kMost / 2>{});
  if (cols <= 32 * kMost) return launch(Row<Vec, 32, kMost>{});
  if (cols <= 128 * kMost / 2) return launch(Row<Vec, 128, kMost / 2>{});
  if (cols <= 128 * kMost) return launch(Row<Vec, 128, kMost>{});
  if (cols <= 256 * kMost) return launch(Row<Vec, 256, kMost>{});
  if (cols <= 512 * kMost) return launch(Row<Vec, 512, kMost>{});
  if (cols <= 1024 * kMost) return launch(Row<Vec, 1024, kMost>{});
  launch(Row<Vec, 1024, kMost, false>{});
}

/// What versions support that move rows in whole vectors only: beyond the first row, others start
/// between the boundaries of 16 bytes.
template <class T>
Support needs_whole_vectors(int cols) {
  if (cols % Vec128<T>::size == 0) return supported();
  return unsupported("rows are no whole number of vectors of %d elements", Vec128<T>::size);
}

}  // namespace ladder
