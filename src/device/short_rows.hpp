// Rows so short that a warp has several of them: a row belongs to 1, 2, 4, … or 32 neighbouring lanes,
// with at most one 128-bit vector of elements in each; and a block has a tile of rows, some of them
// in every thread:
//
//   __shared__ typename Rows::Tile tile;             of each matrix that is loaded or stored
//   Rows rows(a.rows, a.cols);
//   for (auto n = blockIdx.x; n < rows.tiles(); n += gridDim.x) {
//     Vec x[Rows::kSteps];
//     rows.fetch(a.x, n, x);                         in flight
//     rows.arrange(x, tile, pad);                    vector s: this lane's elements of row s
//     …                                              sums over Rows::kLanes lanes
//     rows.store(x, a.y, n, tile);
//   }
//
// Where the columns are no whole number of vectors, rows start anywhere, but the rows of a tile are
// one piece of memory that starts at a multiple of 16 bytes: it is moved as one, through shared
// memory, from where each lane takes its elements.
#pragma once

#include "device/vector.hpp"

#include <type_traits>

namespace ladder {

/// kAligned: the columns are a whole number of vectors.
template <class T, int kLanes_, int kSteps_, bool kAligned>
class ShortRows {
 public:
  using Vec = Vec128<T>;
  static constexpr int kLanes = kLanes_, kSteps = kSteps_;
  static constexpr int kBlock = 256;
  static constexpr int kAtOnce = kBlock / kLanes;   // rows of a block, one of each lane
  static constexpr int kOfTile = kAtOnce * kSteps;  // rows
  static_assert(kOfTile % Vec::size == 0, "tiles start at multiples of 16 bytes");

  struct InRegisters {};
  struct InShared {
    alignas(16) T element[kOfTile * kLanes * Vec::size];
  };
  using Tile = std::conditional_t<kAligned, InRegisters, InShared>;

  __device__ ShortRows(std::int64_t rows, int cols) : rows_(rows), cols_(cols) {}

  static std::int64_t tiles(std::int64_t rows) { return ceil_div(rows, std::int64_t{kOfTile}); }
  __device__ std::int64_t tiles() const { return ceil_div(rows_, std::int64_t{kOfTile}); }

  /// The lane's number in its row.
  __device__ static int lane() { return threadIdx.x % kLanes; }
  /// The column of this lane's element e.
  __device__ static int column(int e) {
    return kAligned ? lane() * Vec::size + e : lane() + e * kLanes;
  }
  /// The other way: which lane has column c, as which of its elements.
  __device__ static int lane_of(int c) { return kAligned ? c / Vec::size : c % kLanes; }
  __device__ static int element_of(int c) { return kAligned ? c % Vec::size : c / kLanes; }
  __device__ bool has_column(int e) const { return column(e) < cols_; }

  /// This lane's elements of one row that all rows share.
  __device__ Vec load_columns(const T* from) const {
    Vec v;
    if constexpr (kAligned) {
      for_each([&](int e) { v[e] = T(0.0f); });
      if (has_column(0)) v = Vec::load(from + column(0));
    } else {
      for_each([&](int e) { v[e] = has_column(e) ? from[column(e)] : T(0.0f); });
    }
    return v;
  }

  /// Loads tile n; the elements are where arrange() expects them.
  __device__ void fetch(const T* from, std::int64_t n, Vec (&to)[kSteps]) const {
    if constexpr (kAligned) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const std::int64_t row = row_of(n, s);
        if (row < rows_ && has_column(0)) to[s] = Vec::load(from + row * cols_ + column(0));
      }
    } else {
      from += n * kOfTile * cols_;
      const int elements = elements_of(n);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = vector_at(s);
        if (at + Vec::size <= elements) {
          to[s] = Vec::load(from + at);
        } else {
          for_each([&](int e) { to[s][e] = at + e < elements ? from[at + e] : T(0.0f); });
        }
      }
    }
  }

  /// Hands the elements of fetched tile n to the lanes that have them: vector s is of row s of this
  /// thread, with `pad` for what is beyond the matrix. By all threads of the block; the tile is free.
  __device__ void arrange(Vec (&v)[kSteps], std::int64_t n, Tile& tile, T pad) const {
    if constexpr (kAligned) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if (row_of(n, s) >= rows_ || !has_column(0)) for_each([&](int e) { v[s][e] = pad; });
      }
    } else {
      const int elements = elements_of(n);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if (vector_at(s) < elements) v[s].store(tile.element + vector_at(s));
      }
      __syncthreads();
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = row_at(s);
        for_each([&](int e) {
          v[s][e] = row_of(n, s) < rows_ && has_column(e) ? tile.element[at + column(e)] : pad;
        });
      }
    }
  }

  /// Stores tile n, arranged in v. By all threads of the block; the tile is the one whose elements
  /// arrange() handed over, and is free again for the next arrange().
  __device__ void store(const Vec (&v)[kSteps], T* to, std::int64_t n, Tile& tile) const {
    if constexpr (kAligned) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const std::int64_t row = row_of(n, s);
        if (row < rows_ && has_column(0)) v[s].store_whole(to + row * cols_ + column(0));
      }
    } else {
      to += n * kOfTile * cols_;
      const int elements = elements_of(n);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = row_at(s);
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) {
          if (row_of(n, s) < rows_ && has_column(e)) tile.element[at + column(e)] = v[s][e];
        }
      }
      __syncthreads();
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = vector_at(s);
        if (at + Vec::size <= elements) {
          Vec::load(tile.element + at).store_whole(to + at);
        } else {
          for_each([&](int e) {
            if (at + e < elements) to[at + e] = tile.element[at + e];
          });
        }
      }
    }
  }

  /// Of tile n, the matrix's row that is number s of this thread.
  __device__ static std::int64_t row_of(std::int64_t n, int s) {
    return n * kOfTile + s * kAtOnce + threadIdx.x / kLanes;
  }

 private:
  template <class F>
  __device__ static void for_each(F f) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) f(e);
  }

  __device__ int elements_of(std::int64_t n) const {
    return static_cast<int>(min(std::int64_t{kOfTile}, rows_ - n * kOfTile)) * cols_;
  }
  /// Where vector s of this thread is in a tile, of those that are moved as one.
  __device__ static int vector_at(int s) { return (s * kBlock + threadIdx.x) * Vec::size; }
  /// Where its row s is.
  __device__ int row_at(int s) const { return (s * kAtOnce + threadIdx.x / kLanes) * cols_; }

  std::int64_t rows_;
  int cols_;
};

/// The longest rows of a warp's lanes, in elements.
template <class T>
constexpr int kLongestShortRow = 32 * Vec128<T>::size;

/// Calls launch(ShortRows<…>{…}'s type) with the fewest lanes that hold a row.
template <class T, int kSteps, class Launch>
auto with_short_rows(int cols, Launch launch) {
  auto with = [&]<bool kAligned>(std::bool_constant<kAligned>) {
    const int vectors = ceil_div(cols, Vec128<T>::size);
    if (vectors <= 1) return launch(std::type_identity<ShortRows<T, 1, kSteps, kAligned>>{});
    if (vectors <= 2) return launch(std::type_identity<ShortRows<T, 2, kSteps, kAligned>>{});
    if (vectors <= 4) return launch(std::type_identity<ShortRows<T, 4, kSteps, kAligned>>{});
    if (vectors <= 8) return launch(std::type_identity<ShortRows<T, 8, kSteps, kAligned>>{});
    if (vectors <= 16) return launch(std::type_identity<ShortRows<T, 16, kSteps, kAligned>>{});
    return launch(std::type_identity<ShortRows<T, 32, kSteps, kAligned>>{});
  };
  return cols % Vec128<T>::size == 0 ? with(std::true_type{}) : with(std::false_type{});
}

}  // namespace ladder
