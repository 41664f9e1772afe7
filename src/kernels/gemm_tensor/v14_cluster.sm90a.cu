// Idea      clusters of two blocks, with tiles one above the other: both need the same K-tile of B,
//           so each loads half of it, by multicast into the shared memory of both
// Vs v13    a block reads 32 KiB per K-tile from the L2 instead of 48. A stage is free when the
//           consumers of both blocks have released it, so they arrive at the barriers of both. No
//           faster than v13, on an H200 tied with it at 8192 x 8192 x 8192 and 3 % slower at 2048:
//           the L2 was not what held it up
// Bound by  power: the clock falls until the board keeps to its limit
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      256 x 256 x 64 of a cluster; of a block 128 x 256 x 64, two warpgroups of 64 x 256, 4
//           stages of 48 KiB and 4 KiB of epilogue tiles per warp, one block per SM
#include "device/ptx/cluster.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 256, BK = kDepth;
constexpr int kCluster = 2;  // blocks, along M
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = (BM + BN) * BK;  // elements
constexpr int kElements = kStages * kStage + kConsumers * 4 * 2 * EpilogueTile::kElements;
constexpr std::size_t kShared = kElements * sizeof(half) + 1024;  // to begin at 1024 n
using TileOrder = Tiles<kCluster * BM, BN, 8>;                    // of clusters

template <class T, Major kA, Major kB>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ CUtensorMap map_c, int k_tiles, TileOrder tiles) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);
  const int rank = cluster_rank(), clusters = gridDim.x / kCluster;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kConsumers * kCluster);
    }
    fence_mbarrier_init();
  }
  cluster_sync();  // the mbarriers of both blocks are initialised

  PipelineState<kStages> state;
  if (threadIdx.x >= kConsumers * 128) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128) return;
    constexpr int kPart = BN / kCluster, kAll = (1 << kCluster) - 1;
    for (int tile = blockIdx.x / kCluster; tile < tiles.count(); tile += clusters) {
      const int2 corner = tiles.at(tile);
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
        T* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // Free in both blocks. A new mbarrier reports the previous phase complete.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
        load_k_tile<kA, BM>(to, &map_a, corner.y + rank * BM, k_tile * BK, barrier);
        load_k_tile_multicast<kB, kPart>(to + (BM + rank * kPart) * BK, &map_b,
                                         corner.x + rank * kPart, k_tile * BK, barrier, kAll);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Releases a stage: one thread per block of the cluster arrives at its barrier.
  auto leave = [&](int stage) {
    const int to = threadIdx.x % 128;
    if (to < kCluster) mbarrier_arrive_remote(cluster_address(&empty[stage], to));
  };
  T* const epilogue_tiles = ring + kStages * kStage + warp * 2 * EpilogueTile::kElements;
  for (int tile = blockIdx.x / kCluster; tile < tiles.count(); tile += clusters) {
    float acc[BN / 2];
    int previous = 0;  // the previous K-tile's stage
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      const T* const from = ring + state.stage * kStage;
      const auto a = wgmma_descriptor<kA>(from + warpgroup * 64 * BK);
      const auto b = wgmma_descriptor<kB>(from + BM * BK);
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
        wgmma<BN, kA, kB, T>(acc, a + k * wgmma_step(kA), b + k * wgmma_step(kB), k_tile + k > 0);
      }
      wgmma_commit_group();
      wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
      if (k_tile > 0) leave(previous);
      previous = state.stage;
    }
    wgmma_wait_group<0>(acc);
    leave(previous);

    const int2 corner = tiles.at(tile);
    store_epilogue_tiles(map_c, epilogue_tiles, corner.y + rank * BM + warp * EpilogueTile::kRows,
                         corner.x, acc);
  }
  if (lane == 0) bulk_wait_group_read<0>();
  cluster_sync();  // until then the other block arrives at this one's barriers
}

template <class Op>
struct Cluster {
  static constexpr ladder::Version version{"pairs of blocks load B for each other"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const CUtensorMap a = operand_map(kMajorA<Op>, g.a, g.m, g.k, BM);
    const CUtensorMap b = operand_map(kMajorB<Op>, g.b, g.n, g.k, BN / kCluster);
    const CUtensorMap c = output_map(g.c, g.m, g.n, EpilogueTile::kRows);
    const TileOrder tiles(g.m, g.n);
    const int clusters = tiles.blocks(max(1, ladder::sm_count() / kCluster));
    ladder::launch(multiply<T, kMajorA<Op>, kMajorB<Op>>, clusters * kCluster, kThreads, kShared,
                   stream, a, b, c, ladder::ceil_div(g.k, BK), tiles);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<Cluster<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
