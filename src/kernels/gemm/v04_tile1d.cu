// Idea      each thread computes a column of TM elements of C, its thread tile, and keeps the
//           accumulators in registers
// Vs v03    one load of B from shared memory serves TM FMAs, and a thread's numbers of A are
//           neighbours along k, four to a load: TM / 4 + 1 loads for TM FMAs instead of 2 TM
// Bound by  shared-memory bandwidth: 3 loads for 8 FMAs
// Limits    none
// Tile      64 x 64 x 8, 512 threads of 8 x 1; 4 KiB of shared memory
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

constexpr int BM = 64, BN = 64, BK = 8, TM = 8;
constexpr int kThreads = BM * BN / TM;
static_assert(kThreads == BM * BK && kThreads == BK * BN,
              "each thread loads one element of each tile");

__global__ void __launch_bounds__(kThreads) tile1d(gemm::Args<float> g) {
  alignas(Vec) __shared__ float tile_a[BM][BK];
  __shared__ float tile_b[BK][BN];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int t = threadIdx.x;
  const int col = t % BN;       // of this thread's elements, in the tile
  const int row = t / BN * TM;  // of the first of them
  const int a_row = t / BK, a_col = t % BK;
  const int b_row = t / BN, b_col = t % BN;

  float acc[TM] = {};
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    const bool in_a = row0 + a_row < g.m && k0 + a_col < g.k;
    const bool in_b = col0 + b_col < g.n && k0 + b_row < g.k;
    tile_a[a_row][a_col] = in_a ? g.a[std::int64_t{row0 + a_row} * g.k + k0 + a_col] : 0.0f;
    tile_b[b_row][b_col] = in_b ? g.b[std::int64_t{k0 + b_row} * g.n + col0 + b_col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; k += V) {
      Vec a[TM];
#pragma unroll
      for (int i = 0; i < TM; ++i) a[i] = Vec::load(&tile_a[row + i][k]);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const float b = tile_b[k + e][col];
#pragma unroll
        for (int i = 0; i < TM; ++i) acc[i] += a[i][e] * b;
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int m = row0 + row + i, n = col0 + col;
    if (m < g.m && n < g.n) g.c[std::int64_t{m} * g.n + n] = acc[i];
  }
}

struct Tile1d {
  static constexpr ladder::Version version{"8 elements of a column per thread"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM));
    ladder::launch(tile1d, grid, kThreads, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 4194240");
  }
};

const ladder::Register<Tile1d, gemm, float> registration;

}  // namespace
