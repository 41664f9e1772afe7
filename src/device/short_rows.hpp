// Rows so short that a warp has several of them: a row belongs to 1, 2, 4, … or 32 neighbouring lanes,
// with at most one 128-bit vector of elements in each; and a block has a tile of rows, some of them
// in every thread:
//
//   __shared__ typename Rows::Tile tile;             of each matrix that is loaded or stored
//   Rows rows(a.rows, a.cols);
//   for (auto n = blockIdx.x; n < rows.tiles(); n += gridDim.x) {
//     Vec in_flight[Rows::kVectors];
//     typename Rows::Held x[Rows::kSteps];           of row s: this lane's kElements elements
//     rows.fetch(a.x, n, in_flight);
//     rows.arrange(in_flight, n, tile, pad, x);
//     …                                              sums over Rows::kLanes lanes
//     rows.store(x, a.y, n, tile);
//   }
//
// Where the columns are no whole number of vectors, rows start anywhere, but the rows of a tile are
// one piece of memory that starts at a multiple of 16 bytes: it is moved as one, through shared
// memory, from where each lane takes its elements: one by one, the same columns of every row
// (ShortRows), or in words of 4 bytes (ShortRowsOfWords).
#pragma once

#include "device/vector.hpp"

#include <type_traits>

namespace ladder {

/// kAligned: the columns are a whole number of vectors.
template <class T, int kLanes_, int kSteps_, bool kAligned>
class ShortRows {
 public:
  using Vec = Vec128<T>;
  using Held = Vec;
  static constexpr int kLanes = kLanes_, kSteps = kSteps_;
  static constexpr int kElements = Vec::size, kVectors = kSteps;
  static constexpr int kNeighbours = kAligned ? Vec::size : 1;  // a lane's, side by side in a row
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
  __device__ void arrange(const Vec (&fetched)[kSteps], std::int64_t n, Tile& tile, T pad,
                          Vec (&v)[kSteps]) const {
    if constexpr (kAligned) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        v[s] = fetched[s];
        if (row_of(n, s) >= rows_ || !has_column(0)) for_each([&](int e) { v[s][e] = pad; });
      }
    } else {
      const int elements = elements_of(n);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if (vector_at(s) < elements) fetched[s].store(tile.element + vector_at(s));
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

/// The same for rows that are no whole number of vectors, in words of 4 bytes: a lane has kWords of a
/// row's words, kLanes words apart. Where a word of a row that starts between two of them is half of
/// another row, each has its half. The rows of a thread all start at a word's beginning, or all in its
/// middle.
template <class T, int kLanes_, int kWords_, int kSteps_>
class ShortRowsOfWords {
 public:
  using Vec = Vec128<T>;
  static constexpr int kLanes = kLanes_, kWords = kWords_, kSteps = kSteps_;
  static constexpr int kOfWord = 4 / sizeof(T), kElements = kWords * kOfWord;
  static constexpr int kNeighbours = kOfWord;  // a lane's, side by side in a row
  static constexpr int kBlock = 256;
  static constexpr int kAtOnce = kBlock / kLanes;   // rows of a block, one of each lane
  static constexpr int kOfTile = kAtOnce * kSteps;  // rows
  static constexpr int kVectors = (kSteps * kWords + 3) / 4;
  static_assert(kOfTile % Vec::size == 0, "tiles start at multiples of 16 bytes");
  static_assert(kAtOnce % kOfWord == 0, "a thread's rows start alike");

  struct alignas(4) Held {
    static constexpr int size = kElements;
    T element[kElements];

    __device__ T& operator[](int i) { return element[i]; }
    __device__ const T& operator[](int i) const { return element[i]; }
  };
  struct Tile {
    alignas(16) T element[kVectors * kBlock * Vec::size];
  };

  __device__ ShortRowsOfWords(std::int64_t rows, int cols) : rows_(rows), cols_(cols) {
    shift_ = static_cast<int>(threadIdx.x) / kLanes % 2 * (cols % kOfWord);
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      keep_[k] = 0;
#pragma unroll
      for (int h = 0; h < kOfWord; ++h) {
        if (has_column(k * kOfWord + h)) keep_[k] |= kOfWord == 1 ? ~0u : 0xffffu << 16 * h;
      }
    }
  }

  static std::int64_t tiles(std::int64_t rows) { return ceil_div(rows, std::int64_t{kOfTile}); }
  __device__ std::int64_t tiles() const { return ceil_div(rows_, std::int64_t{kOfTile}); }

  /// The lane's number in its row.
  __device__ static int lane() { return threadIdx.x % kLanes; }
  /// The column of this lane's element e, and whether there is one.
  __device__ int column(int e) const {
    return (lane() + e / kOfWord * kLanes) * kOfWord + e % kOfWord - shift_;
  }
  __device__ bool has_column(int e) const {
    return static_cast<unsigned>(column(e)) < static_cast<unsigned>(cols_);
  }

  /// This lane's elements of one row that all rows share.
  __device__ Held load_columns(const T* from) const {
    Held held;
#pragma unroll
    for (int e = 0; e < kElements; ++e) held[e] = has_column(e) ? from[column(e)] : T(0.0f);
    return held;
  }

  /// Loads tile n, for arrange().
  __device__ void fetch(const T* from, std::int64_t n, Vec (&to)[kVectors]) const {
    from += n * kOfTile * cols_;
    const int elements = elements_of(n);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = vector_at(i);
      if (at + Vec::size <= elements) {
        to[i] = Vec::load(from + at);
      } else if (at < elements) {
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) to[i][e] = at + e < elements ? from[at + e] : T(0.0f);
      }
    }
  }

  /// Hands the elements of fetched tile n to the lanes that have them, with `pad` for what is beyond
  /// the matrix. By all threads of the block; the tile is free.
  __device__ void arrange(const Vec (&fetched)[kVectors], std::int64_t n, Tile& tile, T pad,
                          Held (&held)[kSteps]) const {
    const int elements = elements_of(n);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (vector_at(i) < elements) fetched[i].store(tile.element + vector_at(i));
    }
    __syncthreads();
    unsigned pads = 0;
#pragma unroll
    for (int h = 0; h < kOfWord; ++h)
      std::memcpy(reinterpret_cast<T*>(&pads) + h, &pad, sizeof pad);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const T* const row = tile.element + row_at(s);
      const bool is_row = row_of(n, s) < rows_;
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        unsigned word = pads;
        if (is_row && keep_[k] != 0) {
          word = *reinterpret_cast<const unsigned*>(row + (lane() + k * kLanes) * kOfWord);
          word = (word & keep_[k]) | (pads & ~keep_[k]);
        }
        std::memcpy(static_cast<void*>(held[s].element + k * kOfWord), &word, sizeof word);
      }
    }
  }

  /// Stores tile n. By all threads of the block; the tile is the one whose elements arrange() handed
  /// over, and is free again for the next arrange().
  __device__ void store(const Held (&held)[kSteps], T* to, std::int64_t n, Tile& tile) const {
    if constexpr (kOfWord > 1) __syncthreads();  // others have read their halves of these words
    to += n * kOfTile * cols_;
    const int elements = elements_of(n);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      if (row_of(n, s) >= rows_) break;
      T* const row = tile.element + row_at(s);
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        T* const at = row + (lane() + k * kLanes) * kOfWord;
        if (keep_[k] == ~0u) {
          unsigned word;
          std::memcpy(&word, held[s].element + k * kOfWord, sizeof word);
          *reinterpret_cast<unsigned*>(at) = word;
          continue;
        }
#pragma unroll
        for (int h = 0; h < kOfWord; ++h) {
          if (has_column(k * kOfWord + h)) at[h] = held[s][k * kOfWord + h];
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = vector_at(i);
      if (at + Vec::size <= elements) {
        Vec::load(tile.element + at).store_whole(to + at);
      } else {
#pragma unroll
        for (int e = 0; e < Vec::size; ++e) {
          if (at + e < elements) to[at + e] = tile.element[at + e];
        }
      }
    }
  }

  /// Of tile n, the matrix's row that is number s of this thread.
  __device__ static std::int64_t row_of(std::int64_t n, int s) {
    return n * kOfTile + s * kAtOnce + threadIdx.x / kLanes;
  }

 private:
  __device__ int elements_of(std::int64_t n) const {
    return static_cast<int>(min(std::int64_t{kOfTile}, rows_ - n * kOfTile)) * cols_;
  }
  /// Where vector i of this thread is in a tile.
  __device__ static int vector_at(int i) { return (i * kBlock + threadIdx.x) * Vec::size; }
  /// Where the first word of its row s is.
  __device__ int row_at(int s) const {
    return (s * kAtOnce + static_cast<int>(threadIdx.x) / kLanes) * cols_ - shift_;
  }

  std::int64_t rows_;
  int cols_, shift_;
  unsigned keep_[kWords];  // of each word the bits that are this row's
};

/// The longest rows of a warp's lanes, in elements.
template <class T>
constexpr int kLongestShortRow = 32 * Vec128<T>::size;

/// Calls launch(ShortRows<…>{…}'s type) with the fewest lanes that hold a row.
template <class T, int kSteps, bool kAligned, class Launch>
auto with_fewest_lanes(int cols, Launch launch) {
  const int vectors = ceil_div(cols, Vec128<T>::size);
  if (vectors <= 1) return launch(std::type_identity<ShortRows<T, 1, kSteps, kAligned>>{});
  if (vectors <= 2) return launch(std::type_identity<ShortRows<T, 2, kSteps, kAligned>>{});
  if (vectors <= 4) return launch(std::type_identity<ShortRows<T, 4, kSteps, kAligned>>{});
  if (vectors <= 8) return launch(std::type_identity<ShortRows<T, 8, kSteps, kAligned>>{});
  if (vectors <= 16) return launch(std::type_identity<ShortRows<T, 16, kSteps, kAligned>>{});
  return launch(std::type_identity<ShortRows<T, 32, kSteps, kAligned>>{});
}
template <class T, int kSteps, class Launch>
auto with_short_rows(int cols, Launch launch) {
  return cols % Vec128<T>::size == 0 ? with_fewest_lanes<T, kSteps, true>(cols, launch)
                                     : with_fewest_lanes<T, kSteps, false>(cols, launch);
}

/// The same with ShortRowsOfWords where the columns are no whole number of vectors: lanes have other
/// columns of rows that start between two words.
template <class T, int kSteps, class Launch>
auto with_short_rows_of_words(int cols, Launch launch) {
  if (cols % Vec128<T>::size == 0) return with_fewest_lanes<T, kSteps, true>(cols, launch);
  constexpr int kOfWord = 4 / sizeof(T);
  const int words = ceil_div(cols, kOfWord);  // of a row, wherever it starts
  auto with = [&]<int kLanes>(std::integral_constant<int, kLanes>) {
    if constexpr (kLanes < 32) {
      if (words > 4 * kLanes) {
        return launch(std::type_identity<ShortRowsOfWords<T, kLanes, 5, kSteps>>{});
      }
    }
    return launch(std::type_identity<ShortRowsOfWords<T, kLanes, 4, kSteps>>{});
  };
  if (words <= 5) return with(std::integral_constant<int, 1>{});
  if (words <= 10) return with(std::integral_constant<int, 2>{});
  if (words <= 20) return with(std::integral_constant<int, 4>{});
  if (words <= 40) return with(std::integral_constant<int, 8>{});
  if (words <= 80) return with(std::integral_constant<int, 16>{});
  return with(std::integral_constant<int, 32>{});
}

}  // namespace ladder
