// Idea      a block keeps a square tile of A and one of B in shared memory; each number that is
//           loaded once from global memory is used as often as the tile is wide
// Vs v02    global loads fall by the tile's width (32: from 2 per FMA to 1/16)
// Bound by  shared-memory bandwidth: every FMA still needs two loads, now from shared memory
// Limits    none
//
// The tile's width is chosen at run time, so the tiles live in dynamic shared memory, whose size is
// given with the launch. Small matrices get small tiles, to have enough blocks.
#include "gemm.hpp"

namespace {

constexpr int kUnroll = 8;  // every width is a multiple of it

__global__ void smem_tile(gemm::Args<float> g) {
  const int width = blockDim.x;                           // the block is width x width threads
  float* const tile_a = ladder::dynamic_shared<float>();  // [width][width]
  float* const tile_b = tile_a + width * width;           // [width][width]
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * width + y;
  const int col = blockIdx.x * width + x;

  float sum = 0;
  for (int k0 = 0; k0 < g.k; k0 += width) {
    const bool in_a = row < g.m && k0 + x < g.k;
    const bool in_b = col < g.n && k0 + y < g.k;
    tile_a[y * width + x] = in_a ? g.a[std::int64_t{row} * g.k + k0 + x] : 0.0f;
    tile_b[y * width + x] = in_b ? g.b[std::int64_t{k0 + y} * g.n + col] : 0.0f;
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < width; k += kUnroll) {
#pragma unroll
      for (int i = k; i < k + kUnroll; ++i) sum += tile_a[y * width + i] * tile_b[i * width + x];
    }
    __syncthreads();  // everyone is done with them
  }
  if (row < g.m && col < g.n) g.c[std::int64_t{row} * g.n + col] = sum;
}

struct SmemTile {
  static constexpr ladder::Version version{"square tiles in dynamic shared memory"};

  static int tile_width(int m, int n) {
    const int smaller = min(m, n);
    return smaller >= 32 ? 32 : smaller >= 16 ? 16 : 8;
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const int width = tile_width(g.m, g.n);
    const dim3 block(width, width);
    const dim3 grid(ladder::ceil_div(g.n, width), ladder::ceil_div(g.m, width));
    ladder::launch(smem_tile, grid, block, 2 * width * width * sizeof(float), stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return ladder::ceil_div(p.m, tile_width(p.m, p.n)) <= 65535
               ? ladder::supported()
               : ladder::unsupported("M has more than 65535 tiles");
  }
};

const ladder::Register<SmemTile, gemm, float> registration;

}  // namespace
