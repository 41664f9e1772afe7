// v20's kernel, for any shape of tile: v14's with what v15 and v18 add to it, K split among blocks
// or the tiles of the last wave cut, and with runs of K-tiles and a pitch of B. The rungs have
// kernels of their own that show one of these each; this one is for v20 and for scripts/autotune.
//
// From compute capability 9.0 on the parts of K can be a cluster's, too. Then no sum goes through
// memory: each block of it adds up some rows of all threads' tiles, out of the others' shared memory.
#pragma once

#include "aligned_rows.hpp"
#include "device/ptx/cluster.hpp"
#include "device/ptx/cp_async.hpp"
#include "gemm.hpp"
#include "last_wave.hpp"
#include "partial_sums.hpp"

#include <algorithm>

namespace {

using namespace ladder::ptx;

/// The shapes of tiles: BM x BN x BK of a block, WM x WN of a warp. Where Run is not 0, a thread
/// adds up its FMAs in runs of so many K-tiles, and the runs in shared memory: in short sums
/// rounding errors stay small.
template <int BlockM, int BlockN, int BlockK, int WarpM, int WarpN, int Stages, int BlocksPerSm,
          int Run = 0>
struct Shape {
  static constexpr int BM = BlockM, BN = BlockN, BK = BlockK, WM = WarpM, WN = WarpN;
  static constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
  static constexpr int kStages = Stages, kBlocksPerSm = BlocksPerSm, kRun = Run;
  // A warp tile is made of pieces, in which each lane has V x V elements.
  static constexpr int PM = 4 * V, PN = 8 * V;
  static constexpr int TM = WM / PM * V, TN = WN / PN * V;  // of a thread, in all pieces
  static_assert(BM % WM == 0 && BN % WN == 0 && WM % PM == 0 && WN % PN == 0, "no tile is cut");
  static constexpr bool kClusters = BM * BN <= 64 * 128;  // whether K is split in clusters, too
  static constexpr bool kCuts = BM * BN >= 64 * 128;      // whether tiles of the last wave are cut

  struct Stage {
    // Transposed; padded, so that 8 neighbours in a row of A come to lie in different banks.
    alignas(Vec) float a[BK][BM + V];
    alignas(Vec) float b[BK][BN];
  };
  static constexpr std::size_t kTileBytes = BM * BN * sizeof(float);
  // Of rows that a warp exchanges: four of them lie in different banks.
  static constexpr int kPitch = WN + 1;
  static constexpr std::size_t kExchangeBytes = kThreads / 32 * 4 * kPitch * sizeof(float);
  static constexpr std::size_t kShared =
      std::max(kStages * sizeof(Stage) + (kRun > 0 ? kTileBytes : 0),
               (kClusters ? kTileBytes : 0) + kExchangeBytes);
};

/// W: how many floats of B a copy has, 4 where all rows start at multiples of 16 bytes, or 1.
/// kClustered: a tile has a cluster of blocks. `arrived` is state: how many blocks of each cut tile have
/// written partial sums.
template <class S, int W, bool kClustered>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm)
    tiles(gemm::Args<float> g, Plan plan, unsigned* arrived) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN;
  using Stage = typename S::Stage;
  Stage* const stages = ladder::dynamic_shared<Stage>();
  Stage* const last_stage = stages + S::kStages - 1;
  const int cluster = kClustered ? plan.cluster : 1;
  const int rank = kClustered ? static_cast<int>(blockIdx.x) % cluster : 0;
  // Among the cut tiles' blocks.
  const int cut_block = kClustered ? -1 : static_cast<int>(blockIdx.x) - plan.whole;
  const bool is_cut = cut_block >= 0, is_end = cut_block >= plan.cut;
  const int tile = kClustered ? blockIdx.x / cluster : is_end ? blockIdx.x - plan.cut : blockIdx.x;
  const int row0 = tile / plan.columns * BM, col0 = tile % plan.columns * BN;
  const int splits = gridDim.z, parts = splits * cluster, part = blockIdx.z * cluster + rank;
  const int first = is_end ? plan.at : static_cast<int>(std::int64_t{plan.k_tiles} * part / parts);
  const int end = is_cut && !is_end
                      ? plan.at
                      : static_cast<int>(std::int64_t{plan.k_tiles} * (part + 1) / parts);
  const int k_tiles = end - first;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int warp_row = warp / (BN / S::WN) * S::WM, warp_col = warp % (BN / S::WN) * S::WN;
  // Of this thread's V x V elements of the first piece, in the tile.
  const int row = warp_row + (lane / 16 * 2 + lane % 2) * V;
  const int col = warp_col + lane % 16 / 2 * V;

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
  const float* b_from = g.b + (b_row + k0) * plan.b_pitch;
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
      cp_async<4 * W>(&to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * plan.b_pitch,
                      k >= missing ? 4 * W : 0);
    }
    b_from += std::int64_t{BK} * plan.b_pitch;
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
      cp_async_if<4 * W>(any, &to->b[k][b_col], b_from + std::int64_t{v * kRowsB} * plan.b_pitch);
    }
    b_from += std::int64_t{BK} * plan.b_pitch;
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
  float* const runs = reinterpret_cast<float*>(stages + S::kStages) + t;  // of this thread
  bool has_runs = false;
  auto end_run = [&](bool is_last) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        float& total = runs[(i * TN + j) * S::kThreads];
        if (has_runs) acc[i][j] += total;
        if (is_last) continue;
        total = acc[i][j];
        acc[i][j] = 0;
      }
    }
    has_runs = true;
  };
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    copy_first(&stages[s], s >= k_tiles ? BK : s == 0 && first == 0 ? lacking : 0);
  }
  cp_async_wait_group<S::kStages - 2>();
  __syncthreads();
  Stage* now = stages;       // the K-tile in hand
  Stage* free = last_stage;  // to be overwritten
  fragments(now, 0);
  int left = k_tiles;
  do {
    const int stop = S::kRun > 0 && left > S::kRun ? left - S::kRun : 0;
    for (; left > stop; --left) {
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
    if constexpr (S::kRun > 0) end_run(left == 0);
  } while (S::kRun > 0 && left > 0);

  float* const c =
      splits == 1 ? g.c : plan.partials + static_cast<std::int64_t>(blockIdx.z) * g.m * g.n;
  const bool c_aligned = rows_aligned(c, g.n);
  // Where rows of C, too, start anywhere, a warp exchanges a row of each lane through shared memory,
  // so that neighbouring lanes store neighbours.
  float* const exchange =
      reinterpret_cast<float*>(reinterpret_cast<char*>(stages) + (kClustered ? S::kTileBytes : 0)) +
      warp * 4 * S::kPitch;
  auto store_row = [&](int i, const Vec(&total)[TN / V]) {
    const int piece_row = i / V * S::PM + i % V;
    if constexpr (W == V) {
      const int c_row = row0 + row + piece_row;
      if (c_row >= g.m) return;
#pragma unroll
      for (int j = 0; j < TN / V; ++j) {
        const int c_col = col0 + col + j * S::PN;
        float* const to = c + std::int64_t{c_row} * g.n + c_col;
        if (c_aligned && c_col < g.n) {
          total[j].store(to);
        } else {  // with a copy of B
#pragma unroll
          for (int e = 0; e < V; ++e) {
            if (c_col + e < g.n) to[e] = total[j][e];
          }
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < TN / V; ++j) {
        float* const to = exchange + (row - warp_row) / V * S::kPitch + col - warp_col + j * S::PN;
#pragma unroll
        for (int e = 0; e < V; ++e) to[e] = total[j][e];
      }
      __syncwarp();
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int c_row = row0 + warp_row + piece_row + r * V;
#pragma unroll
        for (int n = lane; n < S::WN; n += 32) {
          const int c_col = col0 + warp_col + n;
          if (c_row < g.m && c_col < g.n) {
            c[std::int64_t{c_row} * g.n + c_col] = exchange[r * S::kPitch + n];
          }
        }
      }
      __syncwarp();
    }
  };
  // A shuffle from the lane itself, as in v14: a copy that the compiler does not propagate.
  auto copy_of = [&](float x) { return __shfl_sync(0xffffffff, x, lane); };

  if constexpr (kClustered) {
    if constexpr (kHasClusters) {
      float4* const sums = reinterpret_cast<float4*>(stages) + t;  // those of this thread
      auto at = [&](int i, int j) { return sums + (i * TN + j) / V * S::kThreads; };
      __syncthreads();  // all have left the stages
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += V) {
          *at(i, j) = make_float4(copy_of(acc[i][j]), copy_of(acc[i][j + 1]),
                                  copy_of(acc[i][j + 2]), copy_of(acc[i][j + 3]));
        }
      }
      cluster_sync();
      const int adders = cluster < TM ? cluster : TM;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        if (i * adders / TM != rank) continue;
        Vec total[TN / V] = {};
#pragma unroll 4
        for (int from = 0; from < cluster; ++from) {
#pragma unroll
          for (int j = 0; j < TN; j += V) {
            const float4 other = cluster_load(cluster_address(at(i, j), from));
            total[j / V][0] += other.x;
            total[j / V][1] += other.y;
            total[j / V][2] += other.z;
            total[j / V][3] += other.w;
          }
        }
        store_row(i, total);
      }
      cluster_sync();  // the others have read this block's sums
    }
    return;
  }

  if constexpr (W == 1) __syncthreads();  // all have left the stages
  bool add = false;                       // the other block's sums
  // Of the first sum of this thread; those of its others follow, each of all threads together.
  float* const mine =
      plan.partials + (std::int64_t{2} * (tile - plan.whole) + is_end) * (BM * BN) + t;
  if (is_cut) {
    unsigned* const count = &arrived[tile - plan.whole];
    add = __syncthreads_or(t == 0 && *static_cast<volatile unsigned*>(count) > 0);
    if (!add) {
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) mine[(i * TN + j) * S::kThreads] = acc[i][j];
      }
      __threadfence();
      __syncthreads();  // all have written before the counter is incremented
      add = __syncthreads_or(t == 0 && atomicAdd(count, 1u) > 0);
      if (!add) return;
    }
    __threadfence();
    if (t == 0) atomicExch(count, 0u);  // as it was before the launch
  }
  const float* const others = is_end ? mine - BM * BN : mine + BM * BN;
#pragma unroll
  for (int piece = 0; piece < TM; piece += V) {
    float other[V][TN] = {};  // loaded together, not one after the other
    if (add) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) other[i][j] = others[((piece + i) * TN + j) * S::kThreads];
      }
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      Vec total[TN / V];
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        total[j / V][j % V] = copy_of(acc[piece + i][j]) + other[i][j];
      }
      store_row(piece + i, total);
    }
  }
}

/// Multiplies as planned.
template <class S>
void launch_tiles(const gemm::Args<float>& g, const Plan& plan, unsigned* arrived,
                  cudaStream_t stream) {
  const bool vectors = rows_aligned(g.b, plan.b_pitch);
  auto* kernel = vectors ? tiles<S, V, false> : tiles<S, 1, false>;
  if constexpr (S::kClusters) {
    if (plan.cluster > 1) kernel = vectors ? tiles<S, V, true> : tiles<S, 1, true>;
  }
  ladder::launch_in_clusters(kernel, plan.cluster,
                             dim3((plan.whole + 2 * plan.cut) * plan.cluster, 1, plan.splits),
                             S::kThreads, S::kShared, stream, g, plan, arrived);
  if (plan.splits > 1) launch_add_up(g, plan.splits, stream);
}

}  // namespace
