// Idea      warning: strided access, neighbouring threads touch addresses 128 bytes apart
// Vs v01    each access of a warp touches 32 lines instead of one, for the same 32 elements. What a
//           line holds for other warps is gone from the L2 before they come, unless n is small
// Bound by  DRAM bandwidth, 7/8 of which carries bytes that nobody uses: memory moves in sectors of
//           32 bytes, and a sector written in part must be read first
// Limits    none
#include "elementwise.hpp"

namespace {

using elementwise::relu;

constexpr int kStride = 32;  // elements

// The elements in rows of kStride: blockIdx.y is the column, and the x dimension goes down the
// rows.
__global__ void strided(relu::Args<float> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t i = row * kStride + blockIdx.y;
  if (i >= a.n) return;
  a.y[i] = relu::apply({a.x[0][i]});
}

struct Strided {
  static constexpr ladder::Version version{"warning: a warp's elements 128 bytes apart"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    constexpr int kBlock = 256;
    const std::int64_t rows = ladder::ceil_div(a.n, kStride);
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(rows, kBlock)), kStride);
    ladder::launch(strided, grid, kBlock, 0, stream, a);
  }
};

const ladder::Register<Strided, relu, float> registration;

}  // namespace
