// Idea      a block moves a tile of 32 x 32 through shared memory: it comes in by rows of the input
//           and goes out by rows of the output
// Vs v01    stores are coalesced like the loads: 4 sectors instead of 32 (of 16-bit types 2); and a
//           thread has 4 loads in flight instead of 1
// Bound by  shared memory: a warp stores a row of the tile, but loads a column, whose 32 elements
//           are 128 bytes apart, in one of the 32 banks: a 32-way conflict. (16-bit types: 64
//           bytes, two banks, 16-way)
// Limits    rows <= 2097120
// Tile      32 x 32, 256 threads of 4 x 1; 4 KiB of shared memory
#include "transpose.hpp"

namespace {

constexpr int kTile = 32;
constexpr int kStep = 8;  // rows that a block moves at a time, one per warp

template <class T>
__global__ void __launch_bounds__(kTile* kStep) smem_tile(transpose::Args<T> a) {
  __shared__ T tile[kTile][kTile];
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

#pragma unroll
  for (int i = 0; i < kTile; i += kStep) {
    const int row = row0 + y + i, col = col0 + x;
    if (row >= a.rows || col >= a.cols) continue;
    tile[y + i][x] = a.in[std::int64_t{row} * a.cols + col];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile; i += kStep) {
    const int col = col0 + y + i, row = row0 + x;
    if (col >= a.cols || row >= a.rows) continue;
    a.out[std::int64_t{col} * a.rows + row] = tile[x][y + i];
  }
}

struct SmemTile {
  static constexpr ladder::Version version{"a tile in shared memory, coalesced stores"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.cols, kTile), ladder::ceil_div(a.rows, kTile));
    ladder::launch(smem_tile<T>, grid, dim3(kTile, kStep), 0, stream, a);
  }
  static ladder::Support supports(const transpose::Problem& p) {
    return p.rows <= kTile * 65535 ? ladder::supported()
                                   : ladder::unsupported("more than 2097120 rows");
  }
};

const ladder::Register<SmemTile, transpose, float, ladder::bfloat16> registration;

}  // namespace
