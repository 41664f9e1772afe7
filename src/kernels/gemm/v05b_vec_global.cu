// Idea      128-bit loads and stores of global memory too: a thread loads one vector of a K-tile,
//           and stores it as it is
// Vs v05    a quarter of the loads and stores of global memory, and of the stores of the K-tiles
// Bound by  shared-memory bandwidth: two-way bank conflicts, where 8 threads load their fragments
//           of B, 32 bytes apart
// Limits    none: rows that do not start at multiples of 16 bytes are loaded number by number
// Tile      128 x 128 x 8, 256 threads of 8 x 8; 8 KiB of shared memory, two blocks per SM: 64
//           accumulators and 32 numbers of A leave too few of the 128 registers, and 3 are spilled
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
constexpr int kThreads = (BM / TM) * (BN / TN);
static_assert(kThreads * V == BM * BK && kThreads * V == BK * BN,
              "each thread loads one vector of each K-tile");

/// Whether every row of a matrix with `cols` columns starts at a multiple of 16 bytes.
__device__ bool rows_aligned(const float* matrix, int cols) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vec) == 0 && cols % V == 0;
}

__global__ void __launch_bounds__(kThreads, 2) vec_global(gemm::Args<float> g) {
  alignas(Vec) __shared__ float tile_a[BM][BK];
  alignas(Vec) __shared__ float tile_b[BK][BN];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int t = threadIdx.x;
  const int row = t / (BN / TN) * TM;  // of the thread tile, in the block's
  const int col = t % (BN / TN) * TN;
  const int a_row = t / (BK / V), a_col = t % (BK / V) * V;
  const int b_row = t / (BN / V), b_col = t % (BN / V) * V;
  const bool a_aligned = rows_aligned(g.a, g.k);
  const bool b_aligned = rows_aligned(g.b, g.n), c_aligned = rows_aligned(g.c, g.n);

  // A row of A or a column of B beyond the edge is replaced by the first: what comes of it is never
  // stored, and only k is left to check in the loop.
  const int m = row0 + a_row, n = col0 + b_col;
  const float* a_from = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col;
  const float* b_from = g.b + std::int64_t{b_row} * g.n + (n < g.n ? n : 0);

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    const bool whole = g.k - k0 >= BK;  // like the alignment the same for the whole block
    Vec next_a, next_b;
    if (a_aligned && whole) {
      next_a = Vec::load(a_from);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) next_a[i] = k0 + a_col + i < g.k ? a_from[i] : 0.0f;
    }
    if (b_aligned && whole) {
      next_b = Vec::load(b_from);
    } else {
      const bool in_b = k0 + b_row < g.k;
#pragma unroll
      for (int i = 0; i < V; ++i) next_b[i] = in_b && n + i < g.n ? b_from[i] : 0.0f;
    }
    a_from += BK;
    b_from += std::int64_t{BK} * g.n;
    next_a.store(&tile_a[a_row][a_col]);
    next_b.store(&tile_b[b_row][b_col]);
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
    for (int j = 0; j < TN; j += V) {
      const int c_row = row0 + row + i, c_col = col0 + col + j;
      if (c_row >= g.m) continue;
      float* const to = g.c + std::int64_t{c_row} * g.n + c_col;
      if (c_aligned && c_col < g.n) {
        Vec{acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]}.store(to);
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          if (c_col + e < g.n) to[e] = acc[i][j + e];
        }
      }
    }
  }
}

struct VecGlobal {
  static constexpr ladder::Version version{"128-bit loads and stores"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM));
    ladder::launch(vec_global, grid, kThreads, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 8388480");
  }
};

const ladder::Register<VecGlobal, gemm, float> registration;

}  // namespace
