// Idea      128-bit loads and stores: a thread loads a thread tile of V x V elements, as V vectors
//           along rows of the input, and transposes it in its registers into V vectors along rows
//           of the output
// Vs v04    a V-th of the instructions, each for V times the bytes, and 64 bytes in flight per
//           thread instead of 16 (of 16-bit types 128 instead of 8)
// Bound by  DRAM, whose accesses are pieces of 128 bytes
// Limits    rows <= 2097120. Where a matrix has rows that start between multiples of 16 bytes, and
//           in tiles at the edges, elements are moved one by one, with a V-way bank conflict
// Tile      8 x 8 thread tiles, 64 threads; f32 32 x 32, 4 KiB of shared memory; 16-bit 64 x 64, 8
//           KiB
//
// The tile is kept transposed, so that its rows, like the output's, run along rows of the input. A
// row is 8 vectors, which is all 32 banks once. A 128-bit access of a warp is made 8 lanes at a
// time, and takes one wavefront if the 8 lanes touch 8 different vectors of a row, whichever the
// rows.
//
//   access                         vector that lane 8y + x touches    where it lies in its row
//   store thread tile's column j   tile[V x + j], vector ty           ty ^ x: all 8 for 8 lanes
//   load a row c                   tile[c], vector x                  x ^ (c / V % 8): all 8
//
// (ty: the thread tile's row in the tile, the same for 8 lanes. Without the XOR the store would be
// an 8-way conflict.)
#include "device/vector.hpp"
#include "transpose.hpp"

namespace {

constexpr int kThreadTiles = 8;  // per side of a tile
constexpr int kThreads = kThreadTiles * kThreadTiles;

/// The place of vector `v` in row `row` of the transposed tile.
template <int V>
__device__ constexpr int place(int row, int v) {
  return v ^ (row / V % 8);
}

/// Whether every row of a matrix with `cols` columns starts at a multiple of 16 bytes.
template <class T>
__device__ bool rows_aligned(const T* matrix, int cols) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && cols * sizeof(T) % 16 == 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads) vec128(transpose::Args<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int V = Vec::size, kTile = kThreadTiles * V;
  alignas(Vec) __shared__ T tile[kTile][kTile];  // transposed
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;

  // The same for the whole block, and decided once, so that no test stands between the loads.
  const bool whole = row0 + kTile <= a.rows && col0 + kTile <= a.cols;
  if (whole && rows_aligned(a.in, a.cols) && rows_aligned(a.out, a.rows)) {
    const int tx = threadIdx.x % kThreadTiles, ty = threadIdx.x / kThreadTiles;
    const T* const from = a.in + std::int64_t{row0 + ty * V} * a.cols + col0 + tx * V;
    Vec thread_tile[V];
#pragma unroll
    for (int i = 0; i < V; ++i) thread_tile[i] = Vec::load(from + std::int64_t{i} * a.cols);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Vec column;
#pragma unroll
      for (int i = 0; i < V; ++i) column[i] = thread_tile[i][j];
      column.store(&tile[tx * V + j][place<V>(tx * V + j, ty) * V]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const int row = ty + i * kThreadTiles, v = tx;
      const Vec out = Vec::load(&tile[row][place<V>(row, v) * V]);
      out.store(a.out + std::int64_t{col0 + row} * a.rows + row0 + v * V);
    }
    return;
  }

  constexpr int kStep = kThreads / kTile;  // rows that the block moves at a time
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  const int rows = min(kTile, a.rows - row0), cols = min(kTile, a.cols - col0);  // of the tile
  if (x < cols) {
#pragma unroll 16
    for (int i = y; i < rows; i += kStep) {
      tile[x][place<V>(x, i / V) * V + i % V] = a.in[std::int64_t{row0 + i} * a.cols + col0 + x];
    }
  }
  __syncthreads();
  if (x < rows) {
#pragma unroll 16
    for (int i = y; i < cols; i += kStep) {
      a.out[std::int64_t{col0 + i} * a.rows + row0 + x] = tile[i][place<V>(i, x / V) * V + x % V];
    }
  }
}

struct Vec128 {
  static constexpr ladder::Version version{
      "128-bit accesses, thread tiles transposed in registers"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    constexpr int kTile = kThreadTiles * ladder::Vec128<T>::size;
    const dim3 grid(ladder::ceil_div(a.cols, kTile), ladder::ceil_div(a.rows, kTile));
    ladder::launch(vec128<T>, grid, kThreads, 0, stream, a);
  }
  static ladder::Support supports(const transpose::Problem& p) {
    return p.rows <= 32 * 65535 ? ladder::supported()
                                : ladder::unsupported("more than 2097120 rows");
  }
};

const ladder::Register<Vec128, transpose, float, ladder::bfloat16> registration;

}  // namespace
