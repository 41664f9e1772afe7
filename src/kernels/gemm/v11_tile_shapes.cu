// Idea      the tile shape is chosen by the problem size
// Vs v10    where the big tile would leave SMs without a block, one a quarter of its size is used;
//           large problems run as in v10
// Bound by  instruction issue; in small problems, by the few warps of an SM
// Limits    none
// Tile      128 x 256 x 8, 256 threads of 16 x 8; 24 KiB of shared memory, one block per SM; or 64
//           x 128 x 8, 128 threads of 8 x 8; 12 KiB of shared memory, three blocks per SM
#include "device/vector.hpp"
#include "gemm.hpp"

namespace {

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

/// The shapes of tiles: BM x BN x BK of a block, WM x WN of a warp.
template <int BlockM, int BlockN, int BlockK, int WarpM, int WarpN, int BlocksPerSm>
struct Shape {
  static constexpr int BM = BlockM, BN = BlockN, BK = BlockK, WM = WarpM, WN = WarpN;
  static constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
  static constexpr int kBlocksPerSm = BlocksPerSm;
  // A warp tile is made of pieces, in which each lane has V x V elements.
  static constexpr int PM = 4 * V, PN = 8 * V;
  static constexpr int TM = WM / PM * V, TN = WN / PN * V;  // of a thread, in all pieces
  // All threads together load kRows rows of a K-tile at a time, in kLoads iterations.
  static constexpr int kRowsA = kThreads / (BK / V), kRowsB = kThreads / (BN / V);
  static constexpr int kLoadsA = BM / kRowsA, kLoadsB = BK / kRowsB;
  static_assert(BM % WM == 0 && BN % WN == 0 && WM % PM == 0 && WN % PN == 0, "no tile is cut");
  static_assert(kLoadsA * kRowsA == BM && kLoadsB * kRowsB == BK, "threads load equally many");
  static_assert(BK == 2 * V, "the swizzle is made for two vectors in a row of A's K-tile");
};

/// Where column m of row k of A's K-tile is stored: in rows 4 to 7, neighbouring groups of 16 are
/// exchanged. Four neighbours stay together, so vectors stay whole.
__device__ constexpr int swizzle(int k, int m) { return m ^ (k / V % 2 * 16); }

/// Whether every row of a matrix with `cols` columns starts at a multiple of 16 bytes.
__device__ bool rows_aligned(const float* matrix, int cols) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vec) == 0 && cols % V == 0;
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm) tile_shapes(gemm::Args<float> g) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  alignas(Vec) __shared__ float tile_a[2][BK][BM];  // transposed
  alignas(Vec) __shared__ float tile_b[2][BK][BN];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  // Of this thread's V x V elements of the first piece, in the tile.
  const int row = warp / (BN / S::WN) * S::WM + (lane / 16 * 2 + lane % 2) * V;
  const int col = warp % (BN / S::WN) * S::WN + lane % 16 / 2 * V;
  const int a_row = t / (BK / V), a_col = t % (BK / V) * V;
  const int b_row = t / (BN / V), b_col = t % (BN / V) * V;
  const bool a_aligned = rows_aligned(g.a, g.k);
  const bool b_aligned = rows_aligned(g.b, g.n), c_aligned = rows_aligned(g.c, g.n);

  // A row of A or a column of B beyond the edge is replaced by the first: what comes of it is never
  // stored, and only k is left to check in the loop.
  const float* a_from[S::kLoadsA];
#pragma unroll
  for (int v = 0; v < S::kLoadsA; ++v) {
    const int m = row0 + a_row + v * S::kRowsA;
    a_from[v] = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col;
  }
  const int n = col0 + b_col;
  const float* b_from = g.b + std::int64_t{b_row} * g.n + (n < g.n ? n : 0);

  // One K-tile on its way from global memory to one of the buffers.
  Vec next_a[S::kLoadsA], next_b[S::kLoadsB];
  auto load = [&](int k0) {
    const bool whole = g.k - k0 >= BK;  // like the alignment the same for the whole block
#pragma unroll
    for (int v = 0; v < S::kLoadsA; ++v) {
      if (a_aligned && whole) {
        next_a[v] = Vec::load(a_from[v]);
      } else {
#pragma unroll
        for (int i = 0; i < V; ++i) next_a[v][i] = k0 + a_col + i < g.k ? a_from[v][i] : 0.0f;
      }
      a_from[v] += BK;
    }
#pragma unroll
    for (int v = 0; v < S::kLoadsB; ++v) {
      if (b_aligned && whole) {
        next_b[v] = Vec::load(b_from);
      } else {
        const bool in_b = k0 + b_row + v * S::kRowsB < g.k;
#pragma unroll
        for (int i = 0; i < V; ++i) next_b[v][i] = in_b && n + i < g.n ? b_from[i] : 0.0f;
      }
      b_from += std::int64_t{S::kRowsB} * g.n;
    }
  };
  auto store = [&](int buffer) {
#pragma unroll
    for (int v = 0; v < S::kLoadsA; ++v) {
      const int m = swizzle(a_col, a_row + v * S::kRowsA);
#pragma unroll
      for (int i = 0; i < V; ++i) tile_a[buffer][a_col + i][m] = next_a[v][i];
    }
#pragma unroll
    for (int v = 0; v < S::kLoadsB; ++v)
      next_b[v].store(&tile_b[buffer][b_row + v * S::kRowsB][b_col]);
  };

  // The fragments of two steps of k: one is multiplied while the other is loaded.
  Vec a[2][TM / V], b[2][TN / V];
  auto fragments = [&](int buffer, int k) {
#pragma unroll
    for (int i = 0; i < TM / V; ++i)
      a[k % 2][i] = Vec::load(&tile_a[buffer][k][swizzle(k, row + i * S::PM)]);
#pragma unroll
    for (int j = 0; j < TN / V; ++j) b[k % 2][j] = Vec::load(&tile_b[buffer][k][col + j * S::PN]);
  };
  static_assert(BK % 2 == 0, "the first step of a K-tile follows on the last of the one before");

  float acc[TM][TN] = {};
  load(0);
  store(0);
  __syncthreads();
  fragments(0, 0);
  int now = 0;  // the buffer with the K-tile in hand
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    const bool more = g.k - k0 > BK;
    if (more) load(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == BK - 1) {  // everything of this K-tile is in registers: on to the next
        if (more) store(now ^= 1);
        __syncthreads();
      }
      fragments(now, (k + 1) % BK);  // after the last K-tile its own once more, unused
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += a[k % 2][i / V][i % V] * b[k % 2][j / V][j % V];
      }
    }
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += V) {
      const int c_row = row0 + row + i / V * S::PM + i % V;
      const int c_col = col0 + col + j / V * S::PN;
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

struct TileShapes {
  // 128 big tiles
  static constexpr gemm::Problem test_problems[] = {{4, 32764, 8}};
  static constexpr ladder::Version version{"warp tiles, small ones for small problems"};
  using Big = Shape<128, 256, 8, 64, 64, 1>;
  using Small = Shape<64, 128, 8, 32, 64, 3>;
  static constexpr std::int64_t kBlocks = 128;  // keep the SMs busy: an H100 has 132

  template <class S>
  static dim3 grid(const gemm::Args<float>& g) {
    return dim3(ladder::ceil_div(g.n, S::BN), ladder::ceil_div(g.m, S::BM));
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const dim3 big = grid<Big>(g);
    if (std::int64_t{big.x} * big.y >= kBlocks) {
      ladder::launch(tile_shapes<Big>, big, Big::kThreads, 0, stream, g);
    } else {
      ladder::launch(tile_shapes<Small>, grid<Small>(g), Small::kThreads, 0, stream, g);
    }
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= Big::BM * 65535 ? ladder::supported() : ladder::unsupported("M is over 8388480");
  }
};

const ladder::Register<TileShapes, gemm, float> registration;

}  // namespace
