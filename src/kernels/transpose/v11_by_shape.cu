// Idea      the right kernel for every shape: a dispatcher, to those of v06, v07 and v09
// Vs v09    v06's kernel where every tile is whole and all rows start at multiples of 16 bytes, which
//           needs no windows; v09's for narrow matrices; v07's for all others
// Bound by  DRAM bandwidth
// Limits    in and out start at multiples of 32 bytes
// Tile      v06's where rows and columns are multiples of 64, of 16-bit types of 128; v09's for up to
//           128 rows or 64 columns: where rows of the output are short, v07 would cut many of their
//           vectors; v07's
#include "device/vector.hpp"
#include "launchers.hpp"

namespace transpose_tiles {
namespace {

struct ByShape {
  static constexpr ladder::Version version{
      "whole tiles, narrow matrices, and all others, by shape"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    constexpr int kTile = 16 * ladder::Vec128<T>::size;
    const bool whole = a.rows % kTile == 0 && a.cols % kTile == 0;
    if (whole && a.rows <= kMostOfBigTile) return launch_big_tile(a, stream);
    if (a.rows <= 128 || a.cols <= 64) return launch_narrow<Stores::streaming>(a, stream);
    launch_any_start(a, stream);
  }
};

const ladder::Register<ByShape, transpose, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace transpose_tiles
