// Idea      bias and gelu as an epilogue of v13's kernel: applied to the accumulators while they
//           are in registers
// Vs v21    one kernel, and C goes to memory once. The bias of a tile is loaded when the tile
//           begins, so its latency is hidden. While one warpgroup computes gelu the other one
//           multiplies: the ring lets it run ahead by 4 K-tiles, which take longer than that
// Bound by  power, as v13
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes; K at least 1
// Tile      as in v13; 32 words of bias in the registers of a thread
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "epilogue.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 256, BK = kDepth;
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = BK * (BM + BN);  // elements
constexpr int kElements = kStages * kStage + kConsumers * 4 * 2 * EpilogueTile::kElements;
constexpr std::size_t kShared = kElements * sizeof(half) + 1024;  // to begin at 1024 n
using TileOrder = Tiles<BM, BN, 16>;

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ Destination<T> c, int k_tiles, TileOrder tiles,
             BiasGelu<T, BN> epilogue) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  PipelineState<kStages> state;
  if (threadIdx.x >= kConsumers * 128) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128) return;
    for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
      const int2 corner = tiles.at(tile);
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
        T* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
        load_k_tile<Major::k, BM>(to, &map_a, corner.y, k_tile * BK, barrier);
        load_k_tile<Major::k, BN>(to + BM * BK, &map_b, corner.x, k_tile * BK, barrier);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* const epilogue_tiles = ring + kStages * kStage + warp * 2 * EpilogueTile::kElements;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    const auto loaded = epilogue.load(tiles.at(tile).x);
    float acc[BN / 2];
    int previous = 0;  // the previous K-tile's stage
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      const T* const from = ring + state.stage * kStage;
      const auto a = wgmma_descriptor<Major::k>(from + warpgroup * 64 * BK);
      const auto b = wgmma_descriptor<Major::k>(from + BM * BK);
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
        wgmma<BN, Major::k, Major::k, T>(acc, a + k * wgmma_step(Major::k),
                                         b + k * wgmma_step(Major::k), k_tile + k > 0);
      }
      wgmma_commit_group();
      wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
      if (k_tile > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
      previous = state.stage;
    }
    wgmma_wait_group<0>(acc);
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);

    const int2 corner = tiles.at(tile);
    epilogue.apply(acc, loaded);
    c.store(epilogue_tiles, corner.y + warp * EpilogueTile::kRows, corner.x, acc);
  }
  if (lane == 0) bulk_wait_group_read<0>();
}

struct Fused {
  static constexpr ladder::Version version{"bias and gelu on the accumulators in registers"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    const CUtensorMap a = operand_map(Major::k, g.a, g.m, g.k, BM);
    const CUtensorMap b = operand_map(Major::k, g.b, g.n, g.k, BN);
    const Destination<T> c(g.c, g.m, g.n);
    const TileOrder tiles(g.m, g.n);
    ladder::launch(multiply<T>, tiles.blocks(ladder::sm_count()), kThreads, kShared, stream, a, b,
                   c, ladder::ceil_div(g.k, BK), tiles, BiasGelu<T, BN>{g.bias, g.n});
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.k == 0) return ladder::unsupported("K is 0: no K-tile, and so no tile");
    return gemm_k_tiles::supports<gemm_tensor_nt>(p);
  }
};

const ladder::Register<Fused, gemm_tensor_nt_bias_gelu, half, ladder::bfloat16> registration;

}  // namespace
