// How the blocks of v01 to v09 and of v20 combine their results: each block writes a partial
// result, and the same kernel is launched again on those, until it writes a single one. This is not
// what these versions teach, so it is the same for all of them.
#pragma once

#include "reduction.hpp"

namespace reduction {

/// A version from its pass, which has, besides the version,
///   template <class T> static std::int64_t blocks(std::int64_t n)
///     of a pass over n elements: at least 1, also of no elements, and fewer than n if n > 1;
///   template <class Op, class T> static void launch_pass(const T* x, std::int64_t n, float* out,
///                                                        cudaStream_t stream)
///     which reduces x[0 … n) to out[0 … blocks<T>(n)).
template <class Pass>
struct InPasses {
  static constexpr ladder::Version version = Pass::version;

  template <class Op, class T>
  static std::size_t workspace(const Args<Op, T>& a) {
    std::int64_t numbers = 0;
    for (std::int64_t n = Pass::template blocks<T>(a.n); n > 1;
         n = Pass::template blocks<float>(n)) {
      numbers += padded(n);
    }
    return static_cast<std::size_t>(numbers) * sizeof(float);
  }

  template <class Op, class T>
  static void launch(const Args<Op, T>& a, cudaStream_t stream) {
    std::int64_t n = Pass::template blocks<T>(a.n);
    float* left = n > 1 ? static_cast<float*>(a.workspace) : a.y;
    Pass::template launch_pass<Op>(a.x, a.n, left, stream);
    while (n > 1) {
      const std::int64_t fewer = Pass::template blocks<float>(n);
      float* const out = fewer > 1 ? left + padded(n) : a.y;
      Pass::template launch_pass<Op>(static_cast<const float*>(left), n, out, stream);
      left = out;
      n = fewer;
    }
  }

 private:
  /// n rounded up so that what follows n floats starts at a multiple of 16 bytes again.
  static std::int64_t padded(std::int64_t n) { return ladder::ceil_div(n, 4) * 4; }
};

/// The blocks of a version whose blocks can take any number of tiles.
///
/// Every tile gets a block until there are 16384, on an H100 some 15 times as many as run at once:
/// the GPU gives the next block to whichever SM is free, and little is lost when the last ones
/// run alone. Up to 4 tiles are one block's work, because another launch would take longer; so one
/// block reduces the partial results of 16384.
inline std::int64_t blocks_for(std::int64_t n, std::int64_t tile, std::int64_t most = 16384) {
  return n <= 4 * tile ? 1 : min(ladder::ceil_div(n, tile), most);
}

}  // namespace reduction
