// v25's kernel, generalised for v20: any operation, tiles of many widths, upright or across, pairs of
// blocks that load for each other as in v14, and C in fp32 too.
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "store.hpp"
#include "tiles.hpp"

#include <algorithm>

namespace gemm_stream_k {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BK = kDepth;
constexpr int kConsumers = 2, kThreads = (kConsumers + 1) * 128;
constexpr int kLines = 64 * kConsumers;  // of a tile: the rows of wgmma
constexpr int kWave = 132;               // tiles that are about to run at the same time

/// A tile is 128 x Width; or, across, Width x 128, multiplied as its transpose. Its 128 lines are of the
/// operand P, its width is of Q: A and B, or, across, B and A. The Cluster blocks of a cluster have
/// tiles that are neighbours along the lines: all need the same of Q, and each loads a part for all.
template <int Width, bool Across, int Cluster>
struct Shape {
  static constexpr int kWidth = Width, kCluster = Cluster;
  static constexpr bool kAcross = Across;
  static constexpr int BM = Across ? Width : kLines, BN = Across ? kLines : Width;
  /// Of a cluster.
  static constexpr int kRows = Across ? BM : BM * Cluster, kCols = Across ? BN * Cluster : BN;
  /// As many rows of tiles as make a wave about as high as wide.
  static constexpr int kBand = [] {
    int band = 1;
    while (band * band * kRows < kWave / Cluster * kCols) ++band;
    return band;
  }();
  using Order = Tiles<kRows, kCols, kBand>;
  static constexpr int kSumBytes = kLines * Width * static_cast<int>(sizeof(float));  // of a block
};

/// Who computes what. The first tiles are divided: their K-tiles, one tile's behind the other's, are
/// dealt out to the clusters in equal runs. The other tiles follow, a cluster each.
struct Division {
  int k_tiles, tiles, divided;

  /// Whether begin() is exact. A division of 64 bits takes registers that accumulators have.
  static bool fits(std::int64_t k_tiles, std::int64_t divided, std::int64_t clusters) {
    return divided * clusters <= (std::int64_t{1} << 32) / std::max<std::int64_t>(k_tiles, 1) - 1;
  }
  __device__ int begin(int cluster, int clusters) const {
    return static_cast<int>(unsigned(divided) * unsigned(k_tiles) * unsigned(cluster) /
                            unsigned(clusters));
  }
};

/// What a cluster has of a tile: K-tiles from first to last.
struct Part {
  int tile, first, last;
};

/// The parts of a cluster. Of its run the last comes first: what it does for others is done before it
/// waits for what others do for it.
class Parts {
 public:
  __device__ Parts(const Division& division, int cluster, int clusters)
      : division_(division), end_(division.begin(cluster + 1, clusters)) {}

  __device__ bool next(Part& part, int cluster, int clusters) {
    const int k_tiles = division_.k_tiles, begin = division_.begin(cluster, clusters);
    if (end_ > begin) {
      part.tile = (end_ - 1) / k_tiles;
      const int first = part.tile * k_tiles;
      part.last = end_ - first;
      end_ = max(begin, first);
      part.first = end_ - first;
      return true;
    }
    const int tile = division_.divided + cluster + (begin - end_) * clusters;
    --end_;  // from here on it counts the whole tiles
    part = {tile, 0, k_tiles};
    return tile < division_.tiles;
  }

 private:
  const Division& division_;
  int end_;  // few registers are left beside the accumulators
};

/// Whether sums are there, of each warp: written by who leaves them, reset by who adds them, so that all
/// are 0 between launches. Launches take turns with the slots, so that as many may overlap.
constexpr int kSlots = 16, kMostBlocks = 512;
namespace {
__device__ unsigned arrived[kSlots][kMostBlocks * kConsumers * 4];
}  // namespace

/// Of the workspace, for the sums that blocks leave for others.
template <class S>
std::size_t exchange_bytes(int blocks) {
  return static_cast<std::size_t>(blocks) * S::kSumBytes;
}

template <class S, class C, Major kQ>
struct SharedLayout {
  static constexpr int kStage = BK * (kLines + kHeld<kQ, S::kWidth>);  // elements
  static constexpr std::size_t kEpilogue = kConsumers * 4 * Destination<C>::kBytesPerWarp;
  static constexpr int kMostStages =
      std::min<int>(12, (227 * 1024 - 2048 - kEpilogue) / (kStage * 2));
  static constexpr std::size_t bytes(int stages) {
    return stages * kStage * std::size_t{2} + kEpilogue + 1024;  // to begin at 1024 n
  }
  static_assert(kMostStages >= 3);
};

/// Issues the loads of a block's part of Q, into all blocks of the cluster: a part of the width; where
/// the width is contiguous, of the depth.
template <class S, Major kQ, class T>
__device__ __forceinline__ void load_shared_k_tile(T* to, const CUtensorMap* map, int q, int k,
                                                   Mbarrier* barrier, int rank) {
  constexpr int kAll = (1 << S::kCluster) - 1;
  if constexpr (S::kCluster == 1) {
    load_k_tile<kQ, kHeld<kQ, S::kWidth>>(to, map, q, k, barrier);
  } else if constexpr (kQ == Major::k) {
    constexpr int kShare = S::kWidth / S::kCluster;
    static_assert(kShare % 8 == 0);
    tensor_load_multicast(to + rank * kShare * BK, map, k, q + rank * kShare, barrier, kAll);
  } else {
    constexpr int kShare = BK / S::kCluster;
#pragma unroll
    for (int i = 0; i < kHeld<kQ, S::kWidth>; i += 64) {
      tensor_load_multicast(to + i * BK + rank * kShare * 64, map, q + i, k + rank * kShare,
                            barrier, kAll);
    }
  }
}

/// Rows of C that a warpgroup stages at once, of a tile across.
template <class S>
constexpr int kRowsAtOnce = S::kWidth % 32 == 0 ? 32 : 16;

/// 64 columns of C from the accumulators of its transpose, kRows rows at a time; a warpgroup's.
template <int kRows, class T, int kAccumulators>
__device__ __forceinline__ void store_across(const CUtensorMap& map, T* epilogue_tiles, int row,
                                             int column, int barrier,
                                             const float (&acc)[kAccumulators]) {
  constexpr int kTiles = kAccumulators * 2 / kRows;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    T* const epilogue_tile = epilogue_tiles + j % 2 * (kRows * 64);
    if (threadIdx.x % 128 == 0) wait_for_epilogue_tile<kTiles>(j);
    named_barrier_sync<128>(barrier);
#pragma unroll
    for (int i = 0; i < kRows; i += 16) {  // four matrices: 8 rows of C left and right, 8 more
      const float* const s = acc + (j * kRows + i) / 2;
      const int r = i + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
      stmatrix_transposed(
          epilogue_tile + r * 64 + (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    fence_proxy_async();
    named_barrier_sync<128>(barrier);
    if (threadIdx.x % 128 == 0) {
      tensor_store(&map, column, row + j * kRows, epilogue_tile);
      bulk_commit_group();
    }
  }
}

/// What a kernel is given; the maps are those of P, Q, and C.
template <class S, class C>
struct Task {
  CUtensorMap p, q, c;
  C* to;
  int m, n, stages;
  Division division;
  typename S::Order order;
  float4* sums;  // [block][warpgroup][accumulators / 4][128]
  int slot;
};

template <class T, class C, class S, Major kP, Major kQ>
__device__ __forceinline__ void multiply_parts(const Task<S, C>& task) {
  using L = SharedLayout<S, C, kQ>;
  constexpr int kStage = L::kStage, kWidth = S::kWidth, kCluster = S::kCluster;
  __shared__ Mbarrier full[L::kMostStages], empty[L::kMostStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);

  auto rank = [] { return static_cast<int>(blockIdx.x % kCluster); };  // rather than a register

  if (threadIdx.x == kConsumers * 128) {
    prefetch_map(&task.p);
    prefetch_map(&task.q);
  }
  if (threadIdx.x == 0) {
    for (int s = 0; s < task.stages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kConsumers * kCluster);
    }
    fence_proxy_async();
    if constexpr (kCluster > 1) fence_mbarrier_init();
  }
  if constexpr (kCluster > 1) {
    cluster_sync();  // the mbarriers of all blocks are initialised
  } else {
    __syncthreads();
  }

  ladder::StagesState state{task.stages};
  Parts parts(task.division, blockIdx.x / kCluster, gridDim.x / kCluster);
  Part part;
  if (threadIdx.x >= kConsumers * 128) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128) return;
    while (parts.next(part, blockIdx.x / kCluster, gridDim.x / kCluster)) {
      const int2 corner = task.order.at(part.tile);
      const int p = (S::kAcross ? corner.x : corner.y) + rank() * kLines;
      const int q = S::kAcross ? corner.y : corner.x;
      for (int k_tile = part.first; k_tile < part.last; ++k_tile, state.advance()) {
        T* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // Free in all blocks. A new mbarrier reports the previous phase complete.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
        load_k_tile<kP, kLines>(to, &task.p, p, k_tile * BK, barrier);
        load_shared_k_tile<S, kQ>(to + kLines * BK, &task.q, q, k_tile * BK, barrier, rank());
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool first_lane = threadIdx.x % 128 == 0;
  // Releases a stage: one thread per block of the cluster arrives at its barrier.
  auto leave = [&](int stage) {
    if constexpr (kCluster > 1) {
      const int to = threadIdx.x % 128;
      if (to < kCluster) mbarrier_arrive_remote(cluster_address(&empty[stage], to));
    } else {
      if (first_lane) mbarrier_arrive(&empty[stage]);
    }
  };
  C* const epilogue_tiles = reinterpret_cast<C*>(ring + task.stages * kStage);
  while (parts.next(part, blockIdx.x / kCluster, gridDim.x / kCluster)) {
    float acc[kWidth / 2];
    const bool is_first = part.first == 0, is_last = part.last == task.division.k_tiles;
    int previous = -1;  // the previous K-tile's stage
    for (int left = part.last - part.first; left > 0; --left, state.advance()) {
      const T* const from = ring + state.stage * kStage;
      const auto p = wgmma_descriptor<kP>(from + warpgroup * 64 * BK);
      const auto q = wgmma_descriptor<kQ>(from + kLines * BK);
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
        wgmma<kWidth, kP, kQ, T>(acc, p + k * wgmma_step(kP), q + k * wgmma_step(kQ),
                                 previous >= 0 || k > 0);
      }
      wgmma_commit_group();
      wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
      if (previous >= 0) leave(previous);
      previous = state.stage;
    }
    wgmma_wait_group<0>(acc);
    leave(previous);

    constexpr int kQuads = kWidth / 8;
    auto sums_of = [&](int block) {
      return task.sums + (std::int64_t{block} * kConsumers + warpgroup) * kQuads * 128 +
             threadIdx.x % 128;
    };
    auto arrived_of = [&](int block) { return &arrived[task.slot][block * kConsumers * 4 + warp]; };
    if (!is_last) {  // who has the last K-tile adds
      float4* const to = sums_of(blockIdx.x);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        to[i * 128] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
      }
      __syncwarp();
      if (lane == 0) store_release<Scope::gpu>(arrived_of(blockIdx.x), 1);
      continue;
    }
    if (!is_first) {  // always from the last part to the first: the same sum in every run
      int other = blockIdx.x / kCluster;
      do {
        --other;
        const int block = other * kCluster + rank();
        if (lane == 0) {
          while (load_acquire<Scope::gpu>(arrived_of(block)) == 0) {
          }
          *arrived_of(block) = 0;
        }
        __syncwarp();
        const float4* const from = sums_of(block);
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const float4 sum = from[i * 128];
          acc[4 * i] += sum.x;
          acc[4 * i + 1] += sum.y;
          acc[4 * i + 2] += sum.z;
          acc[4 * i + 3] += sum.w;
        }
      } while (task.division.begin(other, gridDim.x / kCluster) >
               part.tile * task.division.k_tiles);
    }

    const int2 corner = task.order.at(part.tile);
    if constexpr (S::kAcross) {
      const int column = corner.x + rank() * kLines + warpgroup * 64;
      if constexpr (std::is_same_v<C, float>) {
        store_transposed(task.to, task.m, task.n, corner.y, column + warp % 4 * 16, acc);
      } else {
        store_across<kRowsAtOnce<S>>(task.c,
                                     epilogue_tiles + warpgroup * 8 * EpilogueTile::kElements,
                                     corner.y, column, 1 + warpgroup, acc);
      }
    } else {
      const int row = corner.y + rank() * kLines + warp * EpilogueTile::kRows;
      if constexpr (std::is_same_v<C, float>) {
        store_pairs(task.to, task.m, task.n, row, corner.x, acc);
      } else {
        store_epilogue_tiles(task.c, epilogue_tiles + warp * 2 * EpilogueTile::kElements, row,
                             corner.x, acc);
      }
    }
  }
  if (lane == 0) bulk_wait_group_read<0>();
  if constexpr (kCluster > 1) cluster_sync();  // until then others arrive at this one's barriers
}

template <class T, class C, class S, Major kP, Major kQ>
__global__ void __launch_bounds__(kThreads, 1) multiply(const __grid_constant__ Task<S, C> task) {
  multiply_parts<T, C, S, kP, kQ>(task);
}
template <class T, class C, class S, Major kP, Major kQ>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(S::kCluster)
    multiply_clustered(const __grid_constant__ Task<S, C> task) {
  multiply_parts<T, C, S, kP, kQ>(task);
}

/// Clusters that are at work, and how many tiles they divide among them; the other tiles are whole.
struct Work {
  int clusters, divided;
};

/// g.c = A * B. The workspace has exchange_bytes() of the blocks, if tiles are divided.
template <class Op, class S, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, Work work, cudaStream_t stream) {
  constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  constexpr Major kP = S::kAcross ? kB : kA, kQ = S::kAcross ? kA : kB;
  using L = SharedLayout<S, C, kQ>;
  constexpr int kDeep = kQ == Major::k ? BK : BK / S::kCluster;
  constexpr int kWide = kQ == Major::k ? S::kWidth / S::kCluster : S::kWidth;
  const CUtensorMap a = S::kAcross ? operand_map(kA, g.a, g.m, g.k, kWide, kDeep)
                                   : operand_map(kA, g.a, g.m, g.k, kLines);
  const CUtensorMap b = S::kAcross ? operand_map(kB, g.b, g.n, g.k, kLines)
                                   : operand_map(kB, g.b, g.n, g.k, kWide, kDeep);
  const typename S::Order order(g.m, g.n);
  const Division division{ladder::ceil_div(g.k, BK), order.count(), work.divided};
  const auto run = ladder::ceil_div(std::int64_t{work.divided} * division.k_tiles, work.clusters);
  const std::int64_t most =
      run + std::int64_t{ladder::ceil_div(division.tiles - work.divided, work.clusters)} *
                division.k_tiles;
  const int stages = static_cast<int>(std::min<std::int64_t>(L::kMostStages, most));
  const int blocks = work.clusters * S::kCluster;
  Task<S, C> task{.p = S::kAcross ? b : a,
                  .q = S::kAcross ? a : b,
                  .c = {},
                  .to = g.c,
                  .m = g.m,
                  .n = g.n,
                  .stages = stages,
                  .division = division,
                  .order = order,
                  .sums = static_cast<float4*>(g.workspace),
                  .slot = work.divided > 0 ? static_cast<int>(ladder::next_turn() % kSlots) : 0};
  if constexpr (!std::is_same_v<C, float>) {
    task.c = output_map(g.c, g.m, g.n, S::kAcross ? kRowsAtOnce<S> : EpilogueTile::kRows);
  }
  if constexpr (S::kCluster == 1) {
    ladder::launch(multiply<T, C, S, kP, kQ>, blocks, kThreads, L::bytes(stages), stream, task);
  } else {
    ladder::launch(multiply_clustered<T, C, S, kP, kQ>, blocks, kThreads, L::bytes(stages), stream,
                   task);
  }
}

}  // namespace gemm_stream_k
