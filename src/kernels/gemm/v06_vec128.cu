// Idea      the K-tile of A is kept transposed, so that the 8 numbers of it a thread needs in one
//           step of k are neighbours
// Vs v05b   of A, 8 numbers at a time take registers instead of 32, for as many loads; in return a
//           vector of A is stored number by number
// Bound by  shared-memory bandwidth: two-way bank conflicts, where the K-tile of A is stored
//           transposed, and where 8 threads load their fragments of B, 32 bytes apart
// Limits    none: rows that do not start at multiples of 16 bytes are loaded number by number
// Tile      128 x 128 x 8, 256 threads of 8 x 8; 8 KiB of shared memory, two blocks per SM
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

__global__ void __launch_bounds__(kThreads, 2) vec128(gemm::Args<float> g) {
  alignas(Vec) __shared__ float tile_a[BK][BM];  // transposed
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
#pragma unroll
    for (int i = 0; i < V; ++i) tile_a[a_col + i][a_row] = next_a[i];
    next_b.store(&tile_b[b_row][b_col]);
    __syncthreads();

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      Vec a[TM / V], b[TN / V];
#pragma unroll
      for (int i = 0; i < TM / V; ++i) a[i] = Vec::load(&tile_a[k][row + i * V]);
#pragma unroll
      for (int j = 0; j < TN / V; ++j) b[j] = Vec::load(&tile_b[k][col + j * V]);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i / V][i % V] * b[j / V][j % V];
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

struct Vec128 {
  static constexpr ladder::Version version{"128-bit loads and stores, A transposed"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM));
    ladder::launch(vec128, grid, kThreads, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 8388480");
  }
};

const ladder::Register<Vec128, gemm, float> registration;

}  // namespace
