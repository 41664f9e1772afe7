// Idea      a tile four times as large: pieces of 256 bytes from memory and to memory
// Vs v05    every row of a tile is two neighbouring memory lines, so that DRAM finds more of what
//           it has open, and a fourth of the blocks have to be started
// Bound by  DRAM bandwidth
// Limits    rows <= 4194240. Where a matrix has rows that start between multiples of 16 bytes, and
//           in tiles at the edges, elements are moved one by one, with a V-way bank conflict
// Tile      16 x 16 thread tiles, 256 threads; f32 64 x 64, 16 KiB of shared memory; 16-bit 128 x
//           128, 32 KiB
//
//   access                         vector that 8 neighbouring lanes touch   where it lies in its row
//   store thread tile's column j   tile[V tx + j], vector ty                ty ^ (tx % 8)
//   load a row c                   tile[c], vector tx                       tx ^ (c / V % 8)
//
// A row is twice the 32 banks: vectors v and v + 8 share theirs. Of 8 neighbouring lanes tx % 8 is
// 0 to 7 and ty the same, so that the last column modulo 8 is all of 0 to 7, and the access one
// wavefront.
#include "device/vector.hpp"
#include "launchers.hpp"

namespace transpose_tiles {
namespace {

constexpr int kThreadTiles = 16;  // per side of a tile
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
__global__ void __launch_bounds__(kThreads, 32 / ladder::Vec128<T>::size)
    big_tile(transpose::Args<T> a) {
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

struct BigTile {
  static constexpr ladder::Version version{"a tile of 16 x 16 thread tiles"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    launch_big_tile(a, stream);
  }
  static ladder::Support supports(const transpose::Problem& p) {
    return p.rows <= kMostOfBigTile ? ladder::supported()
                                    : ladder::unsupported("more than 4194240 rows");
  }
};

const ladder::Register<BigTile, transpose, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
void launch_big_tile(const transpose::Args<T>& a, cudaStream_t stream) {
  constexpr int kTile = kThreadTiles * ladder::Vec128<T>::size;
  const dim3 grid(ladder::ceil_div(a.cols, kTile), ladder::ceil_div(a.rows, kTile));
  ladder::launch(big_tile<T>, grid, kThreads, 0, stream, a);
}

// Other versions call it too.
template void launch_big_tile(const transpose::Args<float>&, cudaStream_t);
template void launch_big_tile(const transpose::Args<ladder::half>&, cudaStream_t);
template void launch_big_tile(const transpose::Args<ladder::bfloat16>&, cudaStream_t);

}  // namespace transpose_tiles
