// Idea      the best of the rungs before for each problem, by a table of what each shape can do
// Vs v16    tiles of 128 x 128 as well, two blocks of which share an SM and do not wait for each
//           other's barriers; shape and number of splits are those with the lowest estimate
// Bound by  instruction issue; with few rows or columns DRAM bandwidth
// Limits    M up to 4194240; more than 64 KiB of shared memory, which compute capability 7.5 lacks
// Tile      of the table below, in registers and shared memory as in v13; of few rows or columns as
//           in v16
//
// The estimate, in cycles of an SM: the slices of the blocks that the busiest SM gets, times the
// FMA cycles of a slice, over the speed that the table gives for so many blocks on an SM; and for
// partial sums their bytes through L2 and a second launch.
#include "gemm.hpp"
#include "harness/ptx/cp_async.hpp"
#include "harness/vector.hpp"
#include "multiprocessors.hpp"

#include <algorithm>
#include <cmath>

namespace {

using namespace ladder::ptx;

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;

/// Whether every row of a matrix with `cols` columns starts at a multiple of 16 bytes.
__host__ __device__ bool rows_aligned(const void* matrix, int cols) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vec) == 0 && cols % V == 0;
}

// --- Tiles ---------------------------------------------------------------------------------------

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

/// Block z of gridDim.z sums up its part of the slices of K; into the z-th matrix in the workspace,
/// or into C if it is alone. W: how many floats of B a copy has, 4 where all rows start at
/// multiples of 16 bytes, or 1.
template <class S, int W>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm) split_k(gemm::Args<float> g) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  using Stage = typename S::Stage;
  Stage* const stages = ladder::dynamic_shared<Stage>();
  Stage* const last_stage = stages + S::kStages - 1;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  // Of this thread's V x V elements of the first piece, in the tile.
  const int row = warp / (BN / S::WN) * S::WM + (lane / 16 * 2 + lane % 2) * V;
  const int col = warp % (BN / S::WN) * S::WN + lane % 16 / 2 * V;

  // A warp copies 8 neighbours of each of 4 rows of A, and of B a part of a row. Slices end where K
  // ends, so that only the first one may lack something, rows that are zeros then. Rows of A and
  // columns of B beyond the edge are replaced by the first: what comes of them is never stored.
  constexpr int kDeepA = 8, kRowsA = S::kThreads / kDeepA, kTurnsA = BM / kRowsA;
  constexpr int kRowsB = S::kThreads / (BN / W), kTurnsB = BK / kRowsB;
  static_assert(kTurnsA * kRowsA == BM && kTurnsB * kRowsB == BK, "threads copy equally many");
  const int lacking = (BK - g.k % BK) % BK;
  // Of all slices this block's.
  const int all = ladder::ceil_div(g.k, BK), splits = gridDim.z, z = blockIdx.z;
  const int first = static_cast<int>(std::int64_t{all} * z / splits);
  const int slices = static_cast<int>(std::int64_t{all} * (z + 1) / splits) - first;
  const std::int64_t k0 = std::int64_t{first} * BK - lacking;
  const int a_row = t / kDeepA, a_col = t % kDeepA;
  const int b_row = t / (BN / W) % kRowsB, b_col = t % (BN / W) * W;
  const float* a_from[kTurnsA];
#pragma unroll
  for (int v = 0; v < kTurnsA; ++v) {
    const int m = row0 + a_row + v * kRowsA;
    a_from[v] = g.a + std::int64_t{m < g.m ? m : 0} * g.k + a_col + k0;
  }
  const float* b_from = g.b + (b_row + k0) * g.n;
  b_from += col0 + b_col < g.n ? col0 + b_col : 0;

  // The first `missing` steps of the slice are not read; they become zero.
  auto copy = [&](Stage* to, int missing) {
#pragma unroll
    for (int v = 0; v < kTurnsA; ++v) {
#pragma unroll
      for (int k = 0; k < BK; k += kDeepA) {
        cp_async<4>(&to->a[k + a_col][a_row + v * kRowsA], a_from[v] + k,
                    k + a_col >= missing ? 4 : 0);
      }
      a_from[v] += BK;
    }
#pragma unroll
    for (int v = 0; v < kTurnsB; ++v) {
      const int k = b_row + v * kRowsB;
      cp_async<4 * W>(&to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * g.n,
                      k >= missing ? 4 * W : 0);
    }
    b_from += std::int64_t{BK} * g.n;
    cp_async_commit_group();
  };

  // The fragments of two steps of k: one is multiplied while the other is on its way.
  Vec a[2][TM / V], b[2][TN / V];
  auto fragments = [&](const Stage* from, int k) {
#pragma unroll
    for (int i = 0; i < TM / V; ++i) a[k % 2][i] = Vec::load(&from->a[k][row + i * S::PM]);
#pragma unroll
    for (int j = 0; j < TN / V; ++j) b[k % 2][j] = Vec::load(&from->b[k][col + j * S::PN]);
  };
  static_assert(BK % 2 == 0, "the first step of a slice follows on the last of the one before");

  float sum[TM][TN] = {};
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    copy(&stages[s], s >= slices ? BK : s == 0 && z == 0 ? lacking : 0);
  }
  cp_async_wait_group<S::kStages - 2>();
  __syncthreads();
  Stage* now = stages;       // the slice in hand
  Stage* free = last_stage;  // to be overwritten
  fragments(now, 0);
  for (int left = slices; left > 0; --left) {
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k == 0) copy(free, left >= S::kStages ? 0 : BK);
      if (k == BK - 1) {  // everything of this slice is in registers: on to the next
        cp_async_wait_group<S::kStages - 2>();
        __syncthreads();
        free = now;
        now = now == last_stage ? stages : now + 1;
      }
      fragments(now, (k + 1) % BK);  // after the last slice zeros or old numbers, unused
      // Along one row and back along the next: every product shares an operand with the one before,
      // which need not come from its register again; neighbours are in the two banks by turns.
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int step = 0; step < TN; ++step) {
          const int j = i % 2 == 0 ? step : TN - 1 - step;
          sum[i][j] += a[k % 2][i / V][i % V] * b[k % 2][j / V][j % V];
        }
      }
    }
  }

  float* const c =
      splits == 1 ? g.c : static_cast<float*>(g.workspace) + std::int64_t{z} * g.m * g.n;
  const bool c_aligned = reinterpret_cast<std::uintptr_t>(c) % sizeof(Vec) == 0 && g.n % V == 0;
#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += V) {
      const int c_row = row0 + row + i / V * S::PM + i % V;
      const int c_col = col0 + col + j / V * S::PN;
      if (c_row >= g.m) continue;
      float* const to = c + std::int64_t{c_row} * g.n + c_col;
      if (c_aligned && c_col < g.n) {
        Vec{sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]}.store(to);
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          if (c_col + e < g.n) to[e] = sum[i][j + e];
        }
      }
    }
  }
}

// --- Few rows or columns -------------------------------------------------------------------------

constexpr int kWarps = 8, kThreads = kWarps * 32, kBlocksPerSm = 2;
constexpr int kFew = 16;

/// Where the block puts its sums: in its own matrix of the workspace, or in C if K is not split.
__device__ float* output(const gemm::Args<float>& g, int split, int splits) {
  return splits == 1 ? g.c : static_cast<float*>(g.workspace) + std::int64_t{split} * g.m * g.n;
}

// --- Few rows ------------------------------------------------------------------------------------

constexpr int kCols = 32 * V;      // of a block
constexpr int kChunkA = 256;       // steps of k for which A is in shared memory
constexpr int kStep = kWarps * V;  // of k

/// R rows, from R * blockIdx.z on; columns from kCols * blockIdx.x on; k from depth * blockIdx.y
/// on. A lane has V columns: neighbours where all rows of B are aligned, else 32 apart.
template <int R, bool kAligned>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) few_rows(gemm::Args<float> g, int depth) {
  alignas(Vec) __shared__ float sums[kWarps / 2][R][kCols];
  alignas(Vec) __shared__ float chunk[R][kChunkA];  // of A; beyond the edges zeros
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = blockIdx.z * R, col0 = blockIdx.x * kCols;
  const int begin = blockIdx.y * depth, end = g.k - begin < depth ? g.k : begin + depth;
  auto column = [&](int i) { return col0 + (kAligned ? lane * V + i : i * 32 + lane); };

  // Columns beyond the edge are replaced by the first, and not stored.
  const float* b_from[V];
#pragma unroll
  for (int i = 0; i < V; ++i) b_from[i] = g.b + (column(i) < g.n ? column(i) : 0);

  auto load_b = [&](Vec(&b)[V], int k) {
#pragma unroll
    for (int s = 0; s < V; ++s) {
      const std::int64_t row = std::int64_t{k + s} * g.n;
      b[s] = Vec{};
      if (k + s >= end) continue;
      if constexpr (kAligned) {
        b[s] = Vec::load(b_from[0] + row);
      } else {
#pragma unroll
        for (int i = 0; i < V; ++i) b[s][i] = b_from[i][row];
      }
    }
  };
  Vec sum[R] = {};
  Vec next[V];
  load_b(next, begin + warp * V);
  for (int k0 = begin; k0 < end; k0 += kChunkA) {
    if (k0 > begin) __syncthreads();  // all are through with the chunk before
#pragma unroll 2
    for (int i = threadIdx.x; i < R * kChunkA; i += kThreads) {
      const int m = i / kChunkA, k = i % kChunkA;
      const bool inside = row0 + m < g.m && k0 + k < end;
      const float* const from = g.a + std::int64_t{inside ? row0 + m : 0} * g.k;
      cp_async<4>(&chunk[m][k], from + (inside ? k0 + k : 0), inside ? 4 : 0);
    }
    cp_async_wait_all();
    __syncthreads();
#pragma unroll(R == kFew ? 1 : 2)
    for (int step = warp * V; step < kChunkA; step += kStep) {
      Vec b[V];
#pragma unroll
      for (int s = 0; s < V; ++s) b[s] = next[s];
      load_b(next, k0 + step + kStep);
#pragma unroll
      for (int m = 0; m < R; ++m) {
        const Vec a = Vec::load(&chunk[m][step]);  // the same for all lanes
#pragma unroll
        for (int s = 0; s < V; ++s) {
#pragma unroll
          for (int i = 0; i < V; ++i) sum[m][i] += a[s] * b[s][i];
        }
      }
    }
  }

  // The sums of the warps: in turns, those of one half are added to those of the other.
#pragma unroll
  for (int half = kWarps / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half) {
#pragma unroll
      for (int m = 0; m < R; ++m) sum[m].store(&sums[warp - half][m][lane * V]);
    }
    __syncthreads();
    if (warp < half) {
#pragma unroll
      for (int m = 0; m < R; ++m) {
        const Vec other = Vec::load(&sums[warp][m][lane * V]);
#pragma unroll
        for (int i = 0; i < V; ++i) sum[m][i] += other[i];
      }
    }
    // In the next turn a warp overwrites only what it has read itself, or nobody reads any more.
    __syncthreads();
  }
  if (warp > 0) return;
  float* const c = output(g, blockIdx.y, gridDim.y);
#pragma unroll
  for (int m = 0; m < R; ++m) {
    if (row0 + m >= g.m) continue;
    float* const to = c + std::int64_t{row0 + m} * g.n;
    if (kAligned && rows_aligned(c, g.n)) {
      if (column(0) < g.n) sum[m].store(to + column(0));
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (column(i) < g.n) to[column(i)] = sum[m][i];
      }
    }
  }
}

// --- Few columns ---------------------------------------------------------------------------------

constexpr int kRows = 4;     // of a warp
constexpr int kChunk = 512;  // steps of k for which B is in shared memory

/// Up to C columns; rows from kWarps * kRows * blockIdx.x on; k from depth * blockIdx.y on, which
/// is a multiple of kChunk. A lane has V neighbouring steps of k of every 32 V.
template <int C>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    few_columns(gemm::Args<float> g, int depth) {
  alignas(Vec) __shared__ float chunk[C][kChunk + V];  // of B, transposed; beyond the edges zeros
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = (blockIdx.x * kWarps + warp) * kRows;
  const int begin = blockIdx.y * depth, end = g.k - begin < depth ? g.k : begin + depth;
  const bool a_aligned = rows_aligned(g.a, g.k);
  const float* a_from[kRows];
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    a_from[m] = g.a + std::int64_t{row0 + m < g.m ? row0 + m : 0} * g.k;
  }

  float sum[kRows][C] = {};
  for (int k0 = begin; k0 < end; k0 += kChunk) {
    if (k0 > begin) __syncthreads();  // all are through with the chunk before
    for (int i = threadIdx.x; i < kChunk * C; i += kThreads) {
      const int k = i / C, n = i % C;
      const bool inside = k0 + k < end && n < g.n;
      const float* const from = g.b + std::int64_t{inside ? k0 + k : 0} * g.n;
      cp_async<4>(&chunk[n][k], from + (inside ? n : 0), inside ? 4 : 0);
    }
    cp_async_wait_all();
    __syncthreads();
#pragma unroll(C == kFew ? 1 : 2)
    for (int step = lane * V; step < kChunk; step += 32 * V) {
      const int k = k0 + step;
      Vec a[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        if (a_aligned) {
          a[m] = k < end ? Vec::load(a_from[m] + k) : Vec{};
        } else {
#pragma unroll
          for (int s = 0; s < V; ++s) a[m][s] = k + s < end ? a_from[m][k + s] : 0.0f;
        }
      }
#pragma unroll
      for (int n = 0; n < C; ++n) {
        const Vec b = Vec::load(&chunk[n][step]);
#pragma unroll
        for (int m = 0; m < kRows; ++m) {
#pragma unroll
          for (int s = 0; s < V; ++s) sum[m][n] += a[m][s] * b[s];
        }
      }
    }
  }

  float* const c = output(g, blockIdx.y, gridDim.y);
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
#pragma unroll
    for (int n = 0; n < C; ++n) {
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum[m][n] += __shfl_xor_sync(0xffffffff, sum[m][n], lanes);
      }
      if (lane == (m * C + n) % 32 && row0 + m < g.m && n < g.n) {
        c[std::int64_t{row0 + m} * g.n + n] = sum[m][n];
      }
    }
  }
}

// --- Partial sums --------------------------------------------------------------------------------

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

/// How the blocks share the work: parts of the rows or columns, and of K.
struct SkinnyPlan {
  bool few_columns;
  int blocks, splits, depth;

  explicit SkinnyPlan(const gemm::Args<float>& g) {
    few_columns = g.n <= kFew && g.m > kFew;
    blocks = few_columns ? ladder::ceil_div(g.m, kWarps * kRows) : ladder::ceil_div(g.n, kCols);
    const int groups = few_columns ? 1 : ladder::ceil_div(g.m, kFew);
    const std::int64_t places = gemm_multiprocessors() * kBlocksPerSm;
    const int least = few_columns ? kChunk : 8 * kStep;  // steps of k that are worth a block
    const std::int64_t others = std::max(std::int64_t{blocks} * groups, std::int64_t{1});
    const std::int64_t most = std::max(1, ladder::ceil_div(g.k, least));
    splits = static_cast<int>(std::clamp<std::int64_t>(places / others, 1, most));
    const int unit = few_columns ? kChunk : kStep;
    depth = ladder::ceil_div(ladder::ceil_div(g.k, splits), unit) * unit;
    if (depth > 0) splits = ladder::ceil_div(g.k, depth);  // none is empty
  }
};

// --- Which one -----------------------------------------------------------------------------------

// BM, BN, BK, WM, WN, stages, blocks per SM
using Shape0 = Shape<128, 256, 8, 64, 64, 4, 1>;
using Shape1 = Shape<128, 128, 16, 64, 64, 3, 2>;
using Shape2 = Shape<64, 128, 16, 32, 64, 3, 3>;

/// What share of an SM's FMA rate a shape reaches with 1, 2, 3 or more blocks on it.
struct Speed {
  double of_blocks[3];
};
constexpr Speed kSpeeds[] = {
    // autotune:begin
    {{0.80, 0.80, 0.80}},   // Shape0
    {{0.62, 0.75, 0.75}},   // Shape1
    {{0.56, 0.74, 0.795}},  // Shape2
                            // autotune:end
};

constexpr int kSliceOverhead = 4;           // slices' time before the first one and after the last
constexpr double kSumLaunch = 4000;         // cycles of a second launch
constexpr double kSumBytesPerCycle = 2000;  // of all SMs
constexpr int kMostSplits = 64;
constexpr int kLeastSlices = 8;  // of a part of K

/// A shape, and in how many parts K is split.
struct Tiling {
  int shape = 0, splits = 1;
  double cycles = 1e300;

  template <class S>
  void consider(int number, const gemm::Args<float>& g) {
    const double sms = gemm_multiprocessors();
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.n, S::BN)} * ladder::ceil_div(g.m, S::BM);
    const int slices = ladder::ceil_div(g.k, S::BK);
    const int most = std::clamp(slices / kLeastSlices, 1, kMostSplits);
    for (int parts = 1; parts <= most; ++parts) {
      const double blocks = std::ceil(static_cast<double>(tiles) * parts / sms);  // of an SM
      const double depth = ladder::ceil_div(slices, parts) + kSliceOverhead;
      const int together = static_cast<int>(std::min<double>(blocks, S::kBlocksPerSm));
      const double rate = 128 * kSpeeds[number].of_blocks[std::max(together, 1) - 1];
      double estimate = blocks * depth * S::BM * S::BN * S::BK / rate;
      if (parts > 1) {
        const double bytes = 4.0 * g.m * g.n * (2 * parts + 1);
        estimate += kSumLaunch + bytes / kSumBytesPerCycle;
      }
      if (estimate < cycles) *this = {number, parts, estimate};
      if (blocks > S::kBlocksPerSm) break;  // the SMs have enough to do
    }
  }
  explicit Tiling(const gemm::Args<float>& g) {
    consider<Shape0>(0, g);
    consider<Shape1>(1, g);
    consider<Shape2>(2, g);
  }
  Tiling(int number, int parts, double estimate) : shape(number), splits(parts), cycles(estimate) {}
};

struct Autotuned {
  static constexpr ladder::Version version{"the best of all, by a table"};

  static bool is_skinny(const gemm::Args<float>& g) { return g.m <= kFew || g.n <= kFew; }
  static std::size_t workspace(const gemm::Args<float>& g) {
    if (g.m == 0 || g.n == 0) return 0;
    const int splits = is_skinny(g) ? SkinnyPlan(g).splits : Tiling(g).splits;
    const auto matrix = static_cast<std::size_t>(g.m) * static_cast<std::size_t>(g.n);
    return splits == 1 ? 0 : static_cast<std::size_t>(splits) * matrix * sizeof(float);
  }

  template <class S>
  static void tiles(const gemm::Args<float>& g, int splits, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(g.n, S::BN), ladder::ceil_div(g.m, S::BM), splits);
    ladder::launch(rows_aligned(g.b, g.n) ? split_k<S, V> : split_k<S, 1>, grid, S::kThreads,
                   S::kStages * sizeof(typename S::Stage), stream, g);
  }
  template <int R>
  static void rows(const gemm::Args<float>& g, const SkinnyPlan& plan, cudaStream_t stream) {
    const dim3 grid(plan.blocks, plan.splits, ladder::ceil_div(g.m, R));
    ladder::launch(rows_aligned(g.b, g.n) ? few_rows<R, true> : few_rows<R, false>, grid, kThreads,
                   0, stream, g, plan.depth);
  }
  template <int C>
  static void columns(const gemm::Args<float>& g, const SkinnyPlan& plan, cudaStream_t stream) {
    ladder::launch(few_columns<C>, dim3(plan.blocks, plan.splits), kThreads, 0, stream, g,
                   plan.depth);
  }
  static int multiply(const gemm::Args<float>& g, cudaStream_t stream) {
    if (is_skinny(g)) {
      const SkinnyPlan plan(g);
      const int few = plan.few_columns ? g.n : g.m;
      if (plan.few_columns) {
        (few <= 1 ? columns<1> : few <= 4 ? columns<4> : columns<kFew>)(g, plan, stream);
      } else {
        (few <= 1   ? rows<1>
         : few <= 4 ? rows<4>
         : few <= 8 ? rows<8>
                    : rows<kFew>)(g, plan, stream);
      }
      return plan.splits;
    }
    const Tiling tiling(g);
    (tiling.shape == 0   ? tiles<Shape0>
     : tiling.shape == 1 ? tiles<Shape1>
                         : tiles<Shape2>)(g, tiling.splits, stream);
    return tiling.splits;
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    const int splits = multiply(g, stream);
    if (splits == 1) return;
    const std::int64_t size = std::int64_t{g.m} * g.n;
    const bool aligned = reinterpret_cast<std::uintptr_t>(g.c) % sizeof(Vec) == 0 && size % V == 0;
    const std::int64_t blocks = ladder::ceil_div(aligned ? size / V : size, kSumThreads);
    ladder::launch(aligned ? add_up<V> : add_up<1>, static_cast<unsigned>(blocks), kSumThreads, 0,
                   stream, g, splits);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= Shape2::BM * 65535 || p.n <= kFew ? ladder::supported()
                                                    : ladder::unsupported("M is over 4194240");
  }
};

const ladder::Register<Autotuned, gemm, float> registration;

}  // namespace
