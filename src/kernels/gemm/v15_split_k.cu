// Idea      split-K: where there are fewer tiles than SMs, the sum over K is partitioned among
//           blocks
// Vs v14    each block multiplies a part of K, and a second kernel adds the partial sums, always
//           in the same order: the result does not depend on which block was first
// Bound by  instruction issue; partial sums are written and read once more, out of L2 mostly
// Tile      as in v14: 128 x 256 x 8, or 64 x 128 x 16, which alone is split
//
// The number of splits: as many blocks per small tile as fit the GPU at a time, so that one wave of
// blocks fills it; but a part of K is never less than 8 K-tiles, or what a block saves by
// stopping early goes into partial sums.
//
// v20 launches the second kernel too, through partial_sums.hpp.
#include "aligned_rows.hpp"
#include "device/ptx/cp_async.hpp"
#include "device/sm_count.hpp"
#include "partial_sums.hpp"

namespace {

using namespace ladder::ptx;

/// The shapes of tiles: BM x BN x BK of a block, WM x WN of a warp.
template <int BlockM, int BlockN, int BlockK, int WarpM, int WarpN, int Stages, int BlocksPerSm>
struct Shape {
  static constexpr int BM = BlockM, BN = BlockN, BK = BlockK, WM = WarpM, WN = WarpN;
  static constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
  static constexpr int kStages = Stages, kBlocksPerSm = BlocksPerSm;
  // A warp tile is made of pieces, in which each lane has V x V elements.
  static constexpr int PM = 4 * V, PN = 8 * V;
  static constexpr int TM = WM / PM * V, TN = WN / PN * V;  // of a thread, in all pieces
  static_assert(BM % WM == 0 && BN % WN == 0 && WM % PM == 0 && WN % PN == 0, "no tile is cut");

  struct Stage {
    // Transposed; padded, so that 8 neighbours in a row of A come to lie in different banks.
    alignas(Vec) float a[BK][BM + V];
    alignas(Vec) float b[BK][BN];
  };
};

/// W: how many floats of B a copy has, 4 where all rows start at multiples of 16 bytes, or 1.
template <class S, int W>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm) split_k(gemm::Args<float> g) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  using Stage = typename S::Stage;
  Stage* const stages = ladder::dynamic_shared<Stage>();
  Stage* const last_stage = stages + S::kStages - 1;
  const int columns = ladder::ceil_div(g.n, BN);  // of tiles
  const int tile = blockIdx.x, row0 = tile / columns * BM, col0 = tile % columns * BN;
  // This block's part of K begins at K-tile `first`.
  const int z = blockIdx.z, splits = gridDim.z, of_k = ladder::ceil_div(g.k, BK);
  const int first = static_cast<int>(std::int64_t{of_k} * z / splits);
  const int k_tiles = static_cast<int>(std::int64_t{of_k} * (z + 1) / splits) - first;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  // Of this thread's V x V elements of the first piece, in the tile.
  const int row = warp / (BN / S::WN) * S::WM + (lane / 16 * 2 + lane % 2) * V;
  const int col = warp % (BN / S::WN) * S::WN + lane % 16 / 2 * V;

  // A warp copies 8 neighbours of each of 4 rows of A, and of B a part of a row. K-tiles end where
  // K ends, so that only the first one may lack something, rows that are zeros then. Rows of A and
  // columns of B beyond the edge are replaced by the first: what comes of them is never stored.
  constexpr int kDeepA = 8, kRowsA = S::kThreads / kDeepA, kCopiesA = BM / kRowsA;
  constexpr int kRowsB = S::kThreads / (BN / W), kCopiesB = BK / kRowsB;
  static_assert(kCopiesA * kRowsA == BM && kCopiesB * kRowsB == BK, "threads copy equally many");
  const int lacking = (BK - g.k % BK) % BK;
  const std::int64_t k0 = std::int64_t{first} * BK - lacking;
  const int a_row = t / kDeepA, a_col = t % kDeepA;
  const int b_row = t / (BN / W) % kRowsB, b_col = t % (BN / W) * W;
  const float* a_from[kCopiesA];
#pragma unroll
  for (int v = 0; v < kCopiesA; ++v) {
    const int m = row0 + a_row + v * kRowsA;
    a_from[v] = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col + k0;
  }
  const float* b_from = g.b + (b_row + k0) * g.n;
  b_from += col0 + b_col < g.n ? col0 + b_col : 0;

  // The first `missing` steps of the K-tile are not read; they become zero.
  auto copy_first = [&](Stage* to, int missing) {
#pragma unroll
    for (int v = 0; v < kCopiesA; ++v) {
#pragma unroll
      for (int k = 0; k < BK; k += kDeepA) {
        cp_async<4>(&to->a[k + a_col][a_row + v * kRowsA], a_from[v] + k,
                    k + a_col >= missing ? 4 : 0);
      }
      a_from[v] += BK;
    }
#pragma unroll
    for (int v = 0; v < kCopiesB; ++v) {
      const int k = b_row + v * kRowsB;
      cp_async<4 * W>(&to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * g.n,
                      k >= missing ? 4 * W : 0);
    }
    b_from += std::int64_t{BK} * g.n;
    cp_async_commit_group();
  };
  auto copy_if = [&](bool any, Stage* to) {
#pragma unroll
    for (int v = 0; v < kCopiesA; ++v) {
#pragma unroll
      for (int k = 0; k < BK; k += kDeepA) {
        cp_async_if<4>(any, &to->a[k + a_col][a_row + v * kRowsA], a_from[v] + k);
      }
      a_from[v] += BK;
    }
#pragma unroll
    for (int v = 0; v < kCopiesB; ++v) {
      const int k = b_row + v * kRowsB;
      cp_async_if<4 * W>(any, &to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * g.n);
    }
    b_from += std::int64_t{BK} * g.n;
    cp_async_commit_group();
  };

  // The fragments of two steps of k: one is multiplied while the other is loaded.
  Vec a[2][TM / V], b[2][TN / V];
  auto fragments = [&](const Stage* from, int k) {
#pragma unroll
    for (int i = 0; i < TM / V; ++i) a[k % 2][i] = Vec::load(&from->a[k][row + i * S::PM]);
#pragma unroll
    for (int j = 0; j < TN / V; ++j) b[k % 2][j] = Vec::load(&from->b[k][col + j * S::PN]);
  };
  static_assert(BK % 2 == 0, "the first step of a K-tile follows on the last of the one before");

  float acc[TM][TN] = {};
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    copy_first(&stages[s], s >= k_tiles ? BK : s == 0 && first == 0 ? lacking : 0);
  }
  cp_async_wait_group<S::kStages - 2>();
  __syncthreads();
  Stage* now = stages;       // the K-tile in hand
  Stage* free = last_stage;  // to be overwritten
  fragments(now, 0);
  for (int left = k_tiles; left > 0; --left) {
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == 0) copy_if(left >= S::kStages, free);
      if (k == BK - 1) {  // everything of this K-tile is in registers: on to the next
        cp_async_wait_group<S::kStages - 2>();
        __syncthreads();
        free = now;
        if (left > 1) now = now == last_stage ? stages : now + 1;
      }
      fragments(now, (k + 1) % BK);  // after the last K-tile its own, unused
      // The other way round than in v14: here the compiler then assigns registers with fewer bank
      // conflicts.
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int step = 0; step < TN; ++step) {
          const int j = i % 2 != 0 ? step : TN - 1 - step;
          acc[i][j] += a[k % 2][i / V][i % V] * b[k % 2][j / V][j % V];
        }
      }
    }
  }

  // Where K is split, each part writes partial sums to a matrix of its own.
  float* const c =
      splits == 1 ? g.c : static_cast<float*>(g.workspace) + std::int64_t{z} * g.m * g.n;
  const bool c_aligned = rows_aligned(c, g.n);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += V) {
      // A shuffle from the lane itself, as in v14: a copy that the compiler does not propagate.
      Vec value;
#pragma unroll
      for (int e = 0; e < V; ++e) value[e] = __shfl_sync(0xffffffff, acc[i][j + e], lane);
      const int c_row = row0 + row + i / V * S::PM + i % V;
      const int c_col = col0 + col + j / V * S::PN;
      if (c_row >= g.m) continue;
      float* const to = c + std::int64_t{c_row} * g.n + c_col;
      if (c_aligned && c_col < g.n) {
        value.store(to);
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          if (c_col + e < g.n) to[e] = value[e];
        }
      }
    }
  }
}

constexpr int kSumThreads = 256;

/// C = the sum of the matrices in the workspace, first to last; in vectors of W floats.
template <int W>
__global__ void __launch_bounds__(kSumThreads) add_up(gemm::Args<float> g, int splits) {
  const std::int64_t size = std::int64_t{g.m} * g.n;
  const std::int64_t i = (blockIdx.x * std::int64_t{kSumThreads} + threadIdx.x) * W;
  if (i >= size) return;
  const float* const from = static_cast<const float*>(g.workspace) + i;
  if constexpr (W == V) {
    Vec sum = Vec::load(from);
#pragma unroll 4
    for (int z = 1; z < splits; ++z) {
      const Vec part = Vec::load(from + z * size);
#pragma unroll
      for (int e = 0; e < V; ++e) sum[e] += part[e];
    }
    sum.store(g.c + i);
  } else {
    float sum = *from;
#pragma unroll 4
    for (int z = 1; z < splits; ++z) sum += from[z * size];
    g.c[i] = sum;
  }
}

}  // namespace

void launch_add_up(const gemm::Args<float>& g, int splits, cudaStream_t stream) {
  const std::int64_t size = std::int64_t{g.m} * g.n;
  const bool aligned = reinterpret_cast<std::uintptr_t>(g.c) % sizeof(Vec) == 0 && size % V == 0;
  const std::int64_t blocks = ladder::ceil_div(aligned ? size / V : size, kSumThreads);
  ladder::launch(aligned ? add_up<V> : add_up<1>, static_cast<unsigned>(blocks), kSumThreads, 0,
                 stream, g, splits);
}

namespace {

struct SplitK {
  // K in parts, the last one short, of aligned and unaligned rows; on a GPU, big tiles for most SMs
  static constexpr gemm::Problem test_problems[] = {{16, 132, 1031}, {70, 13, 1030}, {4, 32764, 8}};
  static constexpr ladder::Version version{"K split among blocks where tiles are few"};
  using Big = Shape<128, 256, 8, 64, 64, 4, 1>;
  using Small = Shape<64, 128, 16, 32, 64, 3, 3>;
  static constexpr int kLeastKTiles = 8;

  template <class S>
  static std::int64_t tiles_of(const gemm::Args<float>& g) {
    return std::int64_t{ladder::ceil_div(g.n, S::BN)} * ladder::ceil_div(g.m, S::BM);
  }
  /// Whether big tiles leave no SM without a block, and are not mostly padding.
  static bool is_big(const gemm::Args<float>& g) {
    const std::int64_t big = tiles_of<Big>(g);
    return big * 100 >= ladder::sm_count() * std::int64_t{96} && tiles_of<Small>(g) > 3 * big;
  }
  static int splits(const gemm::Args<float>& g) {
    if (g.m == 0 || g.n == 0 || is_big(g)) return 1;
    const std::int64_t slots = ladder::sm_count() * Small::kBlocksPerSm;
    const std::int64_t most = ladder::ceil_div(g.k, Small::BK) / kLeastKTiles;
    return static_cast<int>(max(std::int64_t{1}, min(slots / tiles_of<Small>(g), most)));
  }
  static std::size_t workspace(const gemm::Args<float>& g) {
    return partial_sums_bytes(g, splits(g));
  }
  template <class S>
  static void launch_shape(const gemm::Args<float>& g, int parts, cudaStream_t stream) {
    ladder::launch(rows_aligned(g.b, g.n) ? split_k<S, V> : split_k<S, 1>,
                   dim3(static_cast<unsigned>(tiles_of<S>(g)), 1, parts), S::kThreads,
                   S::kStages * sizeof(typename S::Stage), stream, g);
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (is_big(g)) return launch_shape<Big>(g, 1, stream);
    const int parts = splits(g);
    launch_shape<Small>(g, parts, stream);
    if (parts > 1) ::launch_add_up(g, parts, stream);
  }
};

const ladder::Register<SplitK, gemm, float> registration;

}  // namespace
