// Idea      no bank conflicts: every row of the tile is longer by one bank's word
// Vs v02    the 32 elements of a column lie 33 words apart, in 32 different banks: a load from
//           shared memory is 1 wavefront instead of 32 (of 16-bit types 17 words, and 1 for 16)
// Bound by  latency: a thread has 4 loads of one element in flight, and with 16-bit types that is
//           too little to keep DRAM busy
// Limits    rows <= 2097120
// Tile      32 x 32, 256 threads of 4 x 1; 4.1 KiB of shared memory
//
//   access            element that lane x touches     bank, of f32      of 16-bit types
//   store, warp's row r   tile[r][x]                  33r + x           17r + x/2
//   load, column c        tile[x][c]                  33x + c = x + c   17x + c/2
//
// Modulo 32 both 33 and 17 are odd, so that x = 0 to 31 gives every bank once. Two 16-bit elements
// share a word, so a row of 33 of them would not do: their columns meet in one bank at odd c.
#include "transpose.hpp"

namespace {

constexpr int kTile = 32;
constexpr int kStep = 8;  // rows that a block moves at a time, one per warp

template <class T>
constexpr int kPad = 4 / sizeof(T);  // elements in a word

template <class T>
__global__ void __launch_bounds__(kTile* kStep) padded(transpose::Args<T> a) {
  __shared__ T tile[kTile][kTile + kPad<T>];
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

struct Padded {
  static constexpr ladder::Version version{"no bank conflicts, by padding"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.cols, kTile), ladder::ceil_div(a.rows, kTile));
    ladder::launch(padded<T>, grid, dim3(kTile, kStep), 0, stream, a);
  }
  static ladder::Support supports(const transpose::Problem& p) {
    return p.rows <= kTile * 65535 ? ladder::supported()
                                   : ladder::unsupported("more than 2097120 rows");
  }
};

const ladder::Register<Padded, transpose, float> registration;

}  // namespace
