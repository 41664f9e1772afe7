// What the kernels from v07 on share: where the 128-bit vectors of a row lie that starts anywhere.
#pragma once

#include "device/ptx/exp2.hpp"
#include "device/vector.hpp"

namespace softmax_rows {

constexpr unsigned kAllLanes = 0xffffffffu;

/// e^d, by the hardware's exponential: see v06.
__device__ inline float fast_exp(float d) {
  return ladder::ptx::exp2_approx(ladder::ptx::kLog2E * d);
}

/// A row of `cols` elements, cut into vectors and what is left at its edges.
///
///   | head | vector | vector | … | vector | tail |
///          ^ the first multiple of 32 bytes, a sector, in the row
///
/// Edge elements, of the head and of the tail together, are fewer than the lanes of a warp, so that
/// one each for the first threads of a row is enough.
template <class T>
struct Cut {
  static constexpr int kVector = ladder::Vec128<T>::size, kSector = 32 / sizeof(T);
  static_assert((kSector - 1) + (kVector - 1) < 32);

  int head, vectors, edges;

  /// `first` is the row's first element in the matrix, which starts at a multiple of 32 bytes.
  __device__ Cut(std::int64_t first, int cols) {
    const int to_sector = static_cast<int>(-first & (kSector - 1));
    head = to_sector < cols ? to_sector : cols;
    vectors = (cols - head) / kVector;
    edges = cols - vectors * kVector;
  }

  __device__ bool has_vector(int v) const { return v < vectors; }
  __device__ bool has_edge(int i) const { return i < edges; }

  /// The column of edge element i.
  __device__ int edge_column(int i) const { return i < head ? i : i + vectors * kVector; }
};

/// Loads and stores of the part of a row that registers hold. Where the rest of the row is read
/// again, they are marked as streaming, so that it is still in the L2 then; elsewhere that would
/// only cost time.
template <class Row, class T>
__device__ typename Row::Vec load_held(const T* from) {
  if constexpr (Row::kHoldsAll) return Row::Vec::load(from);
  return Row::Vec::load_streaming(from);
}
template <class Row, class T>
__device__ void store_held(const typename Row::Vec& vector, T* to) {
  if constexpr (!Row::kHoldsAll) return vector.store_streaming(to);
  vector.store_whole(to);
}

}  // namespace softmax_rows
