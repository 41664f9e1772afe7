// Column sums in passes: the rows are split into parts, each part writes a row of partial sums, and
// those are a matrix again, of fewer rows.
#pragma once

#include "matrix_reduction.hpp"

namespace matrix_reduction {

/// How many parts: enough blocks to fill a GPU twice, each with 64 rows at least; 1 is the last
/// pass. `tiles` blocks go side by side.
inline std::int64_t parts_of(std::int64_t rows, std::int64_t tiles) {
  constexpr std::int64_t kBlocks = 2048, kFewestRows = 64;
  const std::int64_t wanted = kBlocks / max(tiles, std::int64_t{1});
  return max(min(wanted, ladder::ceil_div(rows, kFewestRows)), std::int64_t{1});
}

/// A version from its pass, which has, besides the version,
///   template <class T> static std::int64_t tiles(std::int64_t cols)
///     the blocks side by side;
///   template <class T> static void launch_pass(const T* x, std::int64_t rows, std::int64_t cols,
///                                              std::int64_t parts, float* out, cudaStream_t)
///     which writes out[parts][cols], the sums over the rows of each part.
template <class Pass>
struct InPasses {
  static constexpr ladder::Version version = Pass::version;

  template <class T>
  static std::size_t workspace(const Args<T>& a) {
    std::int64_t numbers = 0;
    for (std::int64_t parts = first<T>(a); parts > 1; parts = next(parts, a.cols)) {
      numbers += padded(parts * a.cols);
    }
    return static_cast<std::size_t>(numbers) * sizeof(float);
  }

  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    std::int64_t parts = first<T>(a);
    float* left = parts > 1 ? static_cast<float*>(a.workspace) : a.y;
    Pass::launch_pass(a.x, a.rows, a.cols, parts, left, stream);
    while (parts > 1) {
      const std::int64_t fewer = next(parts, a.cols);
      float* const out = fewer > 1 ? left + padded(parts * a.cols) : a.y;
      Pass::launch_pass(static_cast<const float*>(left), parts, a.cols, fewer, out, stream);
      left = out;
      parts = fewer;
    }
  }

 private:
  template <class T>
  static std::int64_t first(const Args<T>& a) {
    return parts_of(a.rows, Pass::template tiles<T>(a.cols));
  }
  static std::int64_t next(std::int64_t parts, std::int64_t cols) {
    return parts_of(parts, Pass::template tiles<float>(cols));
  }
  /// n rounded up so that what follows n floats starts at a multiple of 16 bytes again.
  static std::int64_t padded(std::int64_t n) { return ladder::ceil_div(n, 4) * 4; }
};

}  // namespace matrix_reduction
