// Idea      for a few rows or columns, one pass over the big matrix: a matrix-vector product with
//           up to 16 vectors at once
// Vs v15    no tile in shared memory, of which most would be padding: a warp streams the big matrix
//           through registers, each number once, and multiplies it with what it has of the small
//           one, of which a piece lies in shared memory
// Bound by  DRAM bandwidth up to 16 rows or columns: 2 operations for a number and row, so at 16 of
//           them 8 for a byte. Above, the big matrix is read again for each 16 rows
// Limits    M up to 1048560
// Tile      16 x 128 per block of 8 warps, each of which sums up every eighth group of 4 steps of
//           k; 128 registers; 48 KiB of shared memory, two blocks per SM. Or, of few columns,
//           32 x 16, 4 rows per warp; 33 KiB of shared memory, two blocks per SM
//
// Where that makes fewer blocks than there are places, K is split, as in v15.
#include "gemm.hpp"
#include "harness/ptx/cp_async.hpp"
#include "harness/vector.hpp"
#include "multiprocessors.hpp"

#include <algorithm>

namespace {

using namespace ladder::ptx;

using Vec = ladder::Vec128<float>;
constexpr int V = Vec::size;
constexpr int kWarps = 8, kThreads = kWarps * 32, kBlocksPerSm = 2;
constexpr int kFew = 16;

/// Whether every row of a matrix with `cols` columns starts at a multiple of 16 bytes.
__host__ __device__ bool rows_aligned(const void* matrix, int cols) {
  return reinterpret_cast<std::uintptr_t>(matrix) % sizeof(Vec) == 0 && cols % V == 0;
}

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

// --- Both ----------------------------------------------------------------------------------------

/// C = the sum of the matrices in the workspace, first to last.
__global__ void __launch_bounds__(kThreads) add_up(gemm::Args<float> g, int splits) {
  const std::int64_t size = std::int64_t{g.m} * g.n;
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= size) return;
  const float* const from = static_cast<const float*>(g.workspace) + i;
  float sum = *from;
#pragma unroll 4
  for (int z = 1; z < splits; ++z) sum += from[z * size];
  g.c[i] = sum;
}

/// How the blocks share the work: parts of the rows or columns, and of K.
struct Plan {
  bool few_columns;
  int blocks, splits, depth;

  explicit Plan(const gemm::Args<float>& g) {
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

struct Skinny {
  static constexpr ladder::Version version{"few rows or columns: one pass over the big matrix"};

  static std::size_t workspace(const gemm::Args<float>& g) {
    const Plan plan(g);
    const auto matrix = static_cast<std::size_t>(g.m) * static_cast<std::size_t>(g.n);
    return plan.splits == 1 ? 0 : static_cast<std::size_t>(plan.splits) * matrix * sizeof(float);
  }

  template <int R>
  static void rows(const gemm::Args<float>& g, const Plan& plan, cudaStream_t stream) {
    const dim3 grid(plan.blocks, plan.splits, ladder::ceil_div(g.m, R));
    ladder::launch(rows_aligned(g.b, g.n) ? few_rows<R, true> : few_rows<R, false>, grid, kThreads,
                   0, stream, g, plan.depth);
  }
  template <int C>
  static void columns(const gemm::Args<float>& g, const Plan& plan, cudaStream_t stream) {
    ladder::launch(few_columns<C>, dim3(plan.blocks, plan.splits), kThreads, 0, stream, g,
                   plan.depth);
  }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    const Plan plan(g);
    const int few = plan.few_columns ? g.n : g.m;
    if (plan.few_columns) {
      (few <= 1 ? columns<1> : few <= 4 ? columns<4> : columns<kFew>)(g, plan, stream);
    } else {
      (few <= 1 ? rows<1> : few <= 4 ? rows<4> : few <= 8 ? rows<8> : rows<kFew>)(g, plan, stream);
    }
    if (plan.splits == 1) return;
    const std::int64_t size = std::int64_t{g.m} * g.n;
    ladder::launch(add_up, static_cast<unsigned>(ladder::ceil_div(size, kThreads)), kThreads, 0,
                   stream, g, plan.splits);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    return p.m <= kFew * 65535 || p.n <= kFew ? ladder::supported()
                                              : ladder::unsupported("M is over 1048560");
  }
};

const ladder::Register<Skinny, gemm, float> registration;

}  // namespace
