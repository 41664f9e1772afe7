// Idea      skinny GEMM: for a few rows or columns, one pass over the big matrix, a matrix-vector
//           product with up to 16 vectors at once
// Vs v15    the block has no common tile, most of which would be padding: each warp streams its
//           part of the big matrix through a multistage pipeline of its own, and waits for no other
//           warp until the end. Where K is split, the last block of a tile to finish adds the
//           partial sums, in the order of K: no second launch
// Bound by  DRAM bandwidth up to 16 rows or columns: 2 operations for a number and row, so at 16 of
//           them 8 for a byte. Above, the big matrix is read again for each 16 rows
// Limits    M up to 1048560; few rows take 97 to 108 KiB of shared memory, where compute capability
//           7.5 has 64 KiB and 8.6, 8.9 and 12.0 have 99 KiB
// Tile      16 x 128 per block of 8 warps, each of which takes every eighth group of 4 steps of k;
//           6 stages of a group per warp in 108 KiB of shared memory, one block per SM. Or, of few
//           columns, 32 x 16, 4 rows per warp; 33 KiB of shared memory, two blocks per SM
//
// The pipeline: five groups of 4 rows of B, 2 KiB each, are in flight while one is multiplied. That
// is 80 KiB per SM; by Little's law 3 TB/s at a latency of one microsecond need 23 KiB per SM, and
// twice that under load.
//
// Up to 16 rows read B once, so they load it with an evict-first policy. Otherwise its lines would
// evict what earlier kernels have written to the L2, and the reads would wait for those writes to
// reach DRAM.
//
// Where that makes fewer blocks than fit the GPU at a time, K is split, as in v15. v20 launches the
// kernels too, through skinny.hpp.
#include "aligned_rows.hpp"
#include "device/ptx/cp_async.hpp"
#include "device/sm_count.hpp"
#include "skinny.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kWarps = 8, kThreads = kWarps * 32;
constexpr int kRowBlocksPerSm = 1, kColumnBlocksPerSm = 2;

// --- K in parts ----------------------------------------------------------------------------------

constexpr int kMostSplitTiles = 1024;

/// Whether this block is the last of `blocks` whose warps, the first `writers` of each, have
/// written their partial sums of a tile: it sees what all of them wrote. `warps_done` counts these warps,
/// and is zero again then.
__device__ inline bool is_last_block(unsigned* warps_done, unsigned blocks, unsigned writers) {
  bool is_last = false;
  if (threadIdx.x / 32 < writers) {
    __threadfence();  // whoever sees the count sees what this thread wrote
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      const unsigned limit = blocks * writers - 1;
      is_last = atomicInc(warps_done, limit) == limit;  // from the limit on to 0
      if (is_last) __threadfence();
    }
  }
  return __syncthreads_or(is_last) != 0;
}

// --- Few rows ------------------------------------------------------------------------------------

constexpr int kCols = 32 * V;      // of a block
constexpr int kStep = kWarps * V;  // of k, of all warps
constexpr int kStages = 6;

/// Four steps of k, of one warp. Each warp has its own, and waits for no other until the end.
template <int R>
struct Stage {
  alignas(Vec) float b[V][kCols];
  alignas(Vec) float a[R][V];
};

/// Shared memory of a block: the stages of each warp, and later the warps' partial sums.
template <int R>
union FewRowsShared {
  Stage<R> stages[kWarps][kStages];
  alignas(Vec) float sums[kWarps / 2][R][kCols];
};

/// R rows, from R * blockIdx.z on; columns from kCols * blockIdx.x on; k from depth * blockIdx.y
/// on. W: how many floats of B a copy has, 4 where all rows start at multiples of 16 bytes, or 1.
/// `warps_done` is state: a count for each tile.
template <int R, int W>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerSm)
    few_rows(gemm::Args<float> g, int depth, unsigned* warps_done) {
  auto* const shared = ladder::dynamic_shared<FewRowsShared<R>>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = blockIdx.z * R, col0 = blockIdx.x * kCols;
  const int begin = blockIdx.y * depth, end = g.k - begin < depth ? g.k : begin + depth;
  const bool a_aligned = rows_aligned(g.a, g.k);

  // Columns beyond the edge are replaced by the first, and not stored.
  constexpr int kCopiesB = V / W;
  const float* b_from[kCopiesB];
#pragma unroll
  for (int i = 0; i < kCopiesB; ++i) {
    const int col = col0 + i * 32 + lane * W;
    b_from[i] = g.b + (col < g.n ? col : 0);
  }
  // Steps of k and rows of A beyond the edge become zeros.
  auto copy = [&](Stage<R>* to, int k) {
    if (k < end) {
#pragma unroll
      for (int s = 0; s < V; ++s) {
        const bool inside = k + s < end;
        const std::int64_t row = std::int64_t{inside ? k + s : k} * g.n;
#pragma unroll
        for (int i = 0; i < kCopiesB; ++i) {
          float* const b = &to->b[s][i * 32 + lane * W];
          if constexpr (W == V) {
            cp_async_streaming(b, b_from[i] + row, inside);
          } else {
            cp_async<4>(b, b_from[i] + row, inside ? 4 : 0);
          }
        }
      }
      if (a_aligned) {
        if (lane < R) {
          const bool inside = row0 + lane < g.m;
          const float* const from = g.a + std::int64_t{inside ? row0 + lane : 0} * g.k + k;
          cp_async<16>(to->a[lane], from, inside ? 16 : 0);
        }
      } else {
#pragma unroll
        for (int i = lane; i < R * V; i += 32) {
          const int m = i / V, s = i % V;
          const bool inside = row0 + m < g.m && k + s < end;
          const float* const from = g.a + std::int64_t{inside ? row0 + m : 0} * g.k;
          cp_async<4>(&to->a[m][s], from + (inside ? k + s : 0), inside ? 4 : 0);
        }
      }
    }
    cp_async_commit_group();
  };

  Stage<R>* const stages = shared->stages[warp];
  Stage<R>* const last_stage = stages + kStages - 1;
  Stage<R>* now = stages;       // in hand
  Stage<R>* free = last_stage;  // to be overwritten
  const int first = begin + warp * V;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) copy(&stages[s], first + s * kStep);
  Vec acc[R] = {};
  for (int k = first; k < end; k += kStep) {
    cp_async_wait_group<kStages - 2>();
    __syncwarp();  // all lanes' copies are complete, and all have left the previous stage
    copy(free, k + (kStages - 1) * kStep);
    Vec b[V];
#pragma unroll
    for (int s = 0; s < V; ++s) b[s] = Vec::load(&now->b[s][lane * V]);
#pragma unroll
    for (int m = 0; m < R; ++m) {
      const Vec a = Vec::load(now->a[m]);  // the same for all lanes
#pragma unroll
      for (int s = 0; s < V; ++s) {
#pragma unroll
        for (int i = 0; i < V; ++i) acc[m][i] += a[s] * b[s][i];
      }
    }
    free = now;
    now = now == last_stage ? stages : now + 1;
  }
  __syncthreads();  // all have left the stages, which become sums

  // Reduces the accumulators of the warps: in each iteration, one half's are added to the other
  // half's. A warp writes to a slot that no other warp reads any more.
  auto slot = [&](int of_warp) { return shared->sums[of_warp % (kWarps / 2)]; };
#pragma unroll
  for (int half = kWarps / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half) {
#pragma unroll
      for (int m = 0; m < R; ++m) acc[m].store(&slot(warp)[m][lane * V]);
    }
    __syncthreads();
    if (warp < half) {
#pragma unroll
      for (int m = 0; m < R; ++m) {
        const Vec other = Vec::load(&slot(warp + half)[m][lane * V]);
#pragma unroll
        for (int i = 0; i < V; ++i) acc[m][i] += other[i];
      }
    }
  }

  const bool c_aligned = rows_aligned(g.c, g.n);
  auto store = [&](int m, const Vec& v) {
    const int col = col0 + lane * V;
    if (row0 + m >= g.m) return;
    float* const to = g.c + std::int64_t{row0 + m} * g.n + col;
    if (c_aligned && col < g.n) {
      v.store(to);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (col + i < g.n) to[i] = v[i];
      }
    }
  };
  const int splits = gridDim.y;
  if (splits == 1) {
    if (warp > 0) return;
#pragma unroll
    for (int m = 0; m < R; ++m) store(m, acc[m]);
    return;
  }
  // [tile][split][R][kCols] in the workspace; first to last, so that the result does not depend on
  // which block finishes last.
  const unsigned tile = blockIdx.z * gridDim.x + blockIdx.x;
  float* const of_tile =
      static_cast<float*>(g.workspace) + std::int64_t{tile} * splits * (R * kCols);
  if (warp == 0) {
#pragma unroll
    for (int m = 0; m < R; ++m) {
      float* const to = of_tile + (blockIdx.y * R + m) * kCols + lane;
#pragma unroll
      for (int i = 0; i < V; ++i) to[i * 32] = acc[m][i];
    }
  }
  if (!is_last_block(&warps_done[tile], splits, 1)) return;
  for (int m = warp; m < R; m += kWarps) {
    const float* const from = of_tile + m * kCols + lane;
    Vec total;
#pragma unroll
    for (int i = 0; i < V; ++i) total[i] = from[i * 32];
#pragma unroll 8
    for (int z = 1; z < splits; ++z) {
#pragma unroll
      for (int i = 0; i < V; ++i) total[i] += from[z * (R * kCols) + i * 32];
    }
    store(m, total);
  }
}

// --- Few columns ---------------------------------------------------------------------------------

constexpr int kRows = 4;     // of a warp
constexpr int kChunk = 512;  // steps of k for which B is in shared memory

/// Up to C columns; rows from kWarps * kRows * blockIdx.x on; k from depth * blockIdx.y on, which
/// is a multiple of kChunk. A lane has V neighbouring steps of k of every 32 V.
template <int C>
__global__ void __launch_bounds__(kThreads, kColumnBlocksPerSm)
    few_columns(gemm::Args<float> g, int depth, unsigned* warps_done) {
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

  float acc[kRows][C] = {};
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
          for (int s = 0; s < V; ++s) acc[m][n] += a[m][s] * b[s];
        }
      }
    }
  }

  // Sum number i of the warp ends up in lane i % 32.
  constexpr int kSums = kRows * C;
  float mine[ladder::ceil_div(kSums, 32)];
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    float total = acc[i / C][i % C];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      total += __shfl_xor_sync(0xffffffff, total, lanes);
    }
    if (lane == i % 32) mine[i / 32] = total;
  }
  // [tile][split][kWarps * kRows][C] in the workspace, added up as in few_rows.
  constexpr int kTile = kWarps * kSums;
  const int splits = gridDim.y;
  float* const of_tile =
      static_cast<float*>(g.workspace) + std::int64_t{blockIdx.x} * splits * kTile;
#pragma unroll
  for (int i = lane; i < kSums; i += 32) {
    const int m = row0 + i / C, n = i % C;
    if (splits > 1) {
      of_tile[blockIdx.y * kTile + warp * kSums + i] = mine[i / 32];
    } else if (m < g.m && n < g.n) {
      g.c[std::int64_t{m} * g.n + n] = mine[i / 32];
    }
  }
  if (splits == 1 || !is_last_block(&warps_done[blockIdx.x], splits, kWarps)) return;
  for (int i = threadIdx.x; i < kTile; i += kThreads) {
    const int m = blockIdx.x * kWarps * kRows + i / C, n = i % C;
    if (m >= g.m || n >= g.n) continue;
    float total = of_tile[i];
#pragma unroll 8
    for (int z = 1; z < splits; ++z) total += of_tile[z * kTile + i];
    g.c[std::int64_t{m} * g.n + n] = total;
  }
}

// --- Both ----------------------------------------------------------------------------------------

/// How many rows or columns a block takes at once: 1, 4, 8 or 16.
inline int vectors_at_once(int few) { return few <= 1 ? 1 : few <= 4 ? 4 : few <= 8 ? 8 : kFew; }

inline bool has_few_columns(int m, int n) { return n <= kFew && m > kFew; }

/// How the work is partitioned among blocks: parts of the rows or columns, and of K.
struct SkinnyPlan {
  bool few_columns;
  int vectors;  // R or C of the kernels
  int blocks;   // along the many rows or columns
  int groups;   // of R rows; 1 of few columns
  int most_splits, splits, depth;

  explicit SkinnyPlan(const gemm::Args<float>& g) {
    few_columns = has_few_columns(g.m, g.n);
    vectors = vectors_at_once(few_columns ? g.n : g.m);
    blocks = few_columns ? ladder::ceil_div(g.m, kWarps * kRows) : ladder::ceil_div(g.n, kCols);
    groups = few_columns ? 1 : ladder::ceil_div(g.m, vectors);
    const std::int64_t slots =
        ladder::sm_count() * (few_columns ? kColumnBlocksPerSm : kRowBlocksPerSm);
    const int unit = few_columns ? kChunk : kStep;
    const int least = few_columns ? kChunk : 4 * kStep;  // steps of k that are worth a block
    const std::int64_t tiles = max(std::int64_t{blocks} * groups, std::int64_t{1});
    most_splits = tiles > kMostSplitTiles ? 1 : max(1, g.k / least);
    splits = static_cast<int>(max(min(slots / tiles, std::int64_t{most_splits}), std::int64_t{1}));
    depth = ladder::ceil_div(ladder::ceil_div(g.k, splits), unit) * unit;
    if (depth > 0) splits = ladder::ceil_div(g.k, depth);  // none is empty
  }
  std::size_t workspace() const {
    const auto tile = static_cast<std::size_t>(vectors * (few_columns ? kWarps * kRows : kCols));
    const auto tiles = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(groups);
    return splits == 1 ? 0 : static_cast<std::size_t>(splits) * tiles * tile * sizeof(float);
  }
  /// Bytes, whatever the number of SMs.
  std::size_t state() const {
    const auto tiles = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(groups);
    return most_splits == 1 ? 0 : tiles * sizeof(unsigned);
  }
};

template <int R>
void launch_rows(const gemm::Args<float>& g, const SkinnyPlan& plan, unsigned* warps_done,
                 cudaStream_t stream) {
  ladder::launch(rows_aligned(g.b, g.n) ? few_rows<R, V> : few_rows<R, 1>,
                 dim3(plan.blocks, plan.splits, plan.groups), kThreads, sizeof(FewRowsShared<R>),
                 stream, g, plan.depth, warps_done);
}
template <int C>
void launch_columns(const gemm::Args<float>& g, const SkinnyPlan& plan, unsigned* warps_done,
                    cudaStream_t stream) {
  ladder::launch(few_columns<C>, dim3(plan.blocks, plan.splits), kThreads, 0, stream, g, plan.depth,
                 warps_done);
}

}  // namespace

std::size_t skinny_shared_bytes(int m, int n) {
  if (has_few_columns(m, n)) return 0;
  switch (vectors_at_once(m)) {
    case 1:
      return sizeof(FewRowsShared<1>);
    case 4:
      return sizeof(FewRowsShared<4>);
    case 8:
      return sizeof(FewRowsShared<8>);
    default:
      return sizeof(FewRowsShared<kFew>);
  }
}

std::size_t skinny_workspace(const gemm::Args<float>& g) { return SkinnyPlan(g).workspace(); }
std::size_t skinny_state(const gemm::Args<float>& g) { return SkinnyPlan(g).state(); }

void launch_skinny(const gemm::Args<float>& g, void* state, cudaStream_t stream) {
  const SkinnyPlan plan(g);
  const auto launch = [&](auto rows, auto columns) {
    (plan.few_columns ? columns : rows)(g, plan, static_cast<unsigned*>(state), stream);
  };
  switch (plan.vectors) {
    case 1:
      return launch(launch_rows<1>, launch_columns<1>);
    case 4:
      return launch(launch_rows<4>, launch_columns<4>);
    case 8:
      return launch(launch_rows<8>, launch_columns<8>);
    default:
      return launch(launch_rows<kFew>, launch_columns<kFew>);
  }
}

namespace {

struct Skinny {
  // Few rows, and few columns in two tiles and in three, each with K in parts
  static constexpr gemm::Problem test_problems[] = {
      {16, 132, 1031}, {70, 13, 1030}, {40, 13, 1030}};
  static constexpr ladder::Version version{"few rows or columns: one pass over the big matrix"};

  static std::size_t workspace(const gemm::Args<float>& g) { return ::skinny_workspace(g); }
  static std::size_t state(const gemm::Args<float>& g) { return ::skinny_state(g); }
  static void launch(const gemm::Args<float>& g, void* state, cudaStream_t stream) {
    ::launch_skinny(g, state, stream);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    if (p.m > kFew * 65535 && p.n > kFew) return ladder::unsupported("M is over 1048560");
    return ladder::needs_shared_memory(::skinny_shared_bytes(p.m, p.n));
  }
};

const ladder::Register<Skinny, gemm, float> registration;

}  // namespace
