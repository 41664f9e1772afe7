// Idea      double buffering: during the FMAs of one K-tile the next one is loaded from global
//           memory into registers, then stored into a second pair of buffers
// Vs v08    the latency of global memory is hidden behind 512 FMAs per thread; one barrier per
//           K-tile instead of two, because no thread writes into the buffers that are being read
// Bound by  instruction issue: 4 loads of fragments, and the loop's own work, beside 64 FMAs; and
//           the wait for fragments, which v09c loads ahead
// Limits    none
// Tile      128 x 128 x 8, 256 threads of 8 x 8; 16 KiB of shared memory, two blocks per SM
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
constexpr int kThreads = (BM / TM) * (BN / TN);
static_assert(TM == 2 * V && TN == 2 * V, "a thread tile is four pieces of V x V");
static_assert(kThreads * V == BM * BK && kThreads * V == BK * BN,
              "each thread loads one vector of each K-tile");

/// Where column m of row k of A's K-tile is stored: in rows 4 to 7, neighbouring groups of 16 are
/// exchanged. Four neighbours stay together, so vectors stay whole.
__device__ constexpr int swizzle(int k, int m) { return m ^ (k / V % 2 * 16); }

/// Whether every row of a matrix with `cols` columns starts at a multiple of 16 bytes.
__device__ bool rows_aligned(const float* matrix, int cols) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vec) == 0 && cols % V == 0;
}

__global__ void __launch_bounds__(kThreads, 2) double_buffer(gemm::Args<float> g) {
  alignas(Vec) __shared__ float tile_a[2][BK][BM];  // transposed
  alignas(Vec) __shared__ float tile_b[2][BK][BN];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int t = threadIdx.x;
  const int row = t / (BN / TN) * V;  // of this thread's first piece, in the tile
  const int col = t % (BN / TN) * V;
  const int a_row = t / (BK / V), a_col = t % (BK / V) * V;
  const int b_row = t / (BN / V), b_col = t % (BN / V) * V;
  const bool a_aligned = rows_aligned(g.a, g.k);
  const bool b_aligned = rows_aligned(g.b, g.n), c_aligned = rows_aligned(g.c, g.n);

  // A row of A or a column of B beyond the edge is replaced by the first: what comes of it is never
  // stored, and only k is left to check in the loop.
  const int m = row0 + a_row, n = col0 + b_col;
  const float* a_from = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col;
  const float* b_from = g.b + std::int64_t{b_row} * g.n + (n < g.n ? n : 0);

  // One K-tile on its way from global memory to one of the buffers.
  Vec next_a, next_b;
  auto load = [&](int k0) {
    const bool whole = g.k - k0 >= BK;  // like the alignment the same for the whole block
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
  };
  auto store = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < V; ++i) tile_a[buffer][a_col + i][swizzle(a_col, a_row)] = next_a[i];
    next_b.store(&tile_b[buffer][b_row][b_col]);
  };

  float acc[TM][TN] = {};
  load(0);
  store(0);
  __syncthreads();
  int now = 0;  // the buffer with the K-tile in hand
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    const bool more = g.k - k0 > BK;
    if (more) load(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      Vec a[TM / V], b[TN / V];
#pragma unroll
      for (int i = 0; i < TM / V; ++i)
        a[i] = Vec::load(&tile_a[now][k][swizzle(k, row + i * (BM / 2))]);
#pragma unroll
      for (int j = 0; j < TN / V; ++j) b[j] = Vec::load(&tile_b[now][k][col + j * (BN / 2)]);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i / V][i % V] * b[j / V][j % V];
      }
    }
    if (more) store(now ^ 1);
    __syncthreads();  // the next K-tile is complete, and everyone is done with this one
    now ^= 1;
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += V) {
      const int c_row = row0 + row + i / V * (BM / 2) + i % V;
      const int c_col = col0 + col + j / V * (BN / 2);
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

struct DoubleBuffer {
  static constexpr ladder::Version version{"the next K-tile loads while this one is multiplied"};

  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(g.n, BN), ladder::ceil_div(g.m, BM));
    ladder::launch(double_buffer, grid, kThreads, 0, stream, g);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 8388480");
  }
};

const ladder::Register<DoubleBuffer, gemm, float> registration;

}  // namespace
