// Idea      no bank conflicts by an XOR in the address (a swizzle) instead of padding
// Vs v03    no shared memory wasted, and rows of a power of two; the wavefronts are the same
// Bound by  latency: a thread has 4 loads of one element in flight, and with 16-bit types that is
//           too little to keep DRAM busy
// Limits    rows <= 2097120
// Tile      32 x 32, 256 threads of 4 x 1; 4 KiB of shared memory
//
//   access                element that lane x touches      bank, of f32   of 16-bit types
//   store, warp's row r   tile[r][x ^ r]                   x ^ r          16(r%2) + (x/2 ^ r/2)
//   load, column c        tile[x][c ^ x]                   c ^ x          16(x%2) + (c/2 ^ x/2)
//
// An XOR with a constant gives every number once, so all banks of a load are different. (16-bit: a
// row is 16 words, so two rows share the 32 banks, and the XOR leaves a word's two elements
// together: for r read r/2*2.)
#include "transpose.hpp"

namespace {

constexpr int kTile = 32;
constexpr int kStep = 8;  // rows that a block moves at a time, one per warp

/// The place of column `col` in row `row` of the tile.
template <class T>
__device__ constexpr int place(int row, int col) {
  constexpr int kInWord = 4 / sizeof(T);
  return col ^ (row / kInWord * kInWord);
}

template <class T>
__global__ void __launch_bounds__(kTile* kStep) swizzled(transpose::Args<T> a) {
  __shared__ T tile[kTile][kTile];
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  const int x = threadIdx.x, y = threadIdx.y;

#pragma unroll
  for (int i = 0; i < kTile; i += kStep) {
    const int row = row0 + y + i, col = col0 + x;
    if (row >= a.rows || col >= a.cols) continue;
    tile[y + i][place<T>(y + i, x)] = a.in[std::int64_t{row} * a.cols + col];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile; i += kStep) {
    const int col = col0 + y + i, row = row0 + x;
    if (col >= a.cols || row >= a.rows) continue;
    a.out[std::int64_t{col} * a.rows + row] = tile[x][place<T>(x, y + i)];
  }
}

struct Swizzled {
  static constexpr ladder::Version version{"no bank conflicts, by an XOR swizzle"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.cols, kTile), ladder::ceil_div(a.rows, kTile));
    ladder::launch(swizzled<T>, grid, dim3(kTile, kStep), 0, stream, a);
  }
  static ladder::Support supports(const transpose::Problem& p) {
    return p.rows <= kTile * 65535 ? ladder::supported()
                                   : ladder::unsupported("more than 2097120 rows");
  }
};

const ladder::Register<Swizzled, transpose, float> registration;

}  // namespace
