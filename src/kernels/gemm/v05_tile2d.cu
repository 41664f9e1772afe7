// Idea      each thread computes a thread tile of TM x TN elements of C in registers: an outer
//           product per step of k
// Vs v04    TM + TN numbers from shared memory for TM * TN FMAs, all of them now four to a load:
//           4 loads for 64 FMAs instead of 3 for 8
// Bound by  scalar loads from global memory and stores of the tiles, and bank conflicts
// Limits    none
// Tile      128 x 128 x 8, 256 threads of 8 x 8; 8 KiB of shared memory; at most 128 registers, so
//           that two blocks fit an SM
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
constexpr int kThreads = (BM / TM) * (BN / TN);
static_assert(kThreads % BK == 0 && BM % (kThreads / BK) == 0, "the threads load A row by row");
static_assert(kThreads % BN == 0 && BK % (kThreads / BN) == 0, "the threads load B row by row");

__global__ void __launch_bounds__(kThreads, 2) tile2d(gemm::Args<float> g) {
  alignas(Vec) __shared__ float tile_a[BM][BK];
  alignas(Vec) __shared__ float tile_b[BK][BN];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int t = threadIdx.x;
  const int row = t / (BN / TN) * TM;  // of the thread tile, in the block's
  const int col = t % (BN / TN) * TN;
  const int a_row = t / BK, a_col = t % BK;
  const int b_row = t / BN, b_col = t % BN;

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < g.k; k0 += BK) {
#pragma unroll
    for (int i = 0; i < BM; i += kThreads / BK) {
      const int m = row0 + a_row + i, k = k0 + a_col;
      tile_a[a_row + i][a_col] = m < g.m && k < g.k ? g.a[std::int64_t{m} * g.k + k] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < BK; i += kThreads / BN) {
      const int k = k0 + b_row + i, n = col0 + b_col;
      tile_b[b_row + i][b_col] = k < g.k && n < g.n ? g.b[std::int64_t{k} * g.n + n] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += V) {
      Vec a[TM];  // of V steps of k
#pragma unroll
      for (int i = 0; i < TM; ++i) a[i] = Vec::load(&tile_a[row + i][k]);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        Vec b[TN / V];
#pragma unroll
        for (int j = 0; j < TN / V; ++j) b[j] = Vec::load(&tile_b[k + e][col + j * V]);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
          for (int j = 0; j < TN; ++j) acc[i][j] += a[i][e] * b[j / V][j % V];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int m = row0 + row + i, n = col0 + col + j;
      if (m < g.m && n < g.n) g.c[std::int64_t{m} * g.n + n] = acc[i][j];
    }
  }
}

struct Tile2d {
  static constexpr ladder::Version version{"8 x 8 elements per thread, in registers"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM));
    ladder::launch(tile2d, grid, kThreads, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 8388480");
  }
};

const ladder::Register<Tile2d, gemm, float> registration;

}  // namespace
