// Idea      a persistent kernel: as many blocks as SMs, each of which takes tile after tile. The
//           producer never stops, so the next tile's K-tiles are loaded while this one's
//           accumulators are stored
// Vs v12    accumulators go through shared memory (epilogue tiles) to TMA, in whole lines, and
//           while it stores them their warps multiply again. The two warpgroups drift apart, so
//           that one stores while the other has the tensor cores for itself. Tiles are taken in
//           bands, so that blocks share their operands in the L2
// Bound by  power: the clock falls until the board keeps to its limit. Not far from it the L2: at
//           full rate 48 bytes per cycle would go from there to every SM
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      128 x 256 x 64, two warpgroups of 64 x 256, 4 stages of 48 KiB and 4 KiB of epilogue
//           tiles per warp, one block per SM
//
// C in fp32 (tn_f32) goes from registers to memory, since stmatrix is for 16 bits (store.hpp). v21
// launches this kernel too (persistent.hpp); v22 has it with an epilogue.
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "persistent.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 256, BK = kDepth;
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = BK * (BM + BN);  // elements
using TileOrder = Tiles<BM, BN, 16>;

template <class T, class C, Major kA, Major kB>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ Destination<C> c, int k_tiles, TileOrder tiles) {
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
        load_k_tile<kA, BM>(to, &map_a, corner.y, k_tile * BK, barrier);
        load_k_tile<kB, BN>(to + BM * BK, &map_b, corner.x, k_tile * BK, barrier);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  C* const epilogue_tiles =
      reinterpret_cast<C*>(ring + kStages * kStage) + warp * 2 * EpilogueTile::kElements;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
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
      if (k_tile > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
      previous = state.stage;
    }
    wgmma_wait_group<0>(acc);
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);

    const int2 corner = tiles.at(tile);
    c.store(epilogue_tiles, corner.y + warp * EpilogueTile::kRows, corner.x, acc);
  }
  if (lane == 0) bulk_wait_group_read<0>();
}

}  // namespace

template <class Op, class T, class C>
void gemm_persistent::launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
  constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  constexpr std::size_t kShared = kStages * kStage * sizeof(T) +
                                  kConsumers * 4 * Destination<C>::kBytesPerWarp +
                                  1024;  // to begin at 1024 n
  const CUtensorMap a = operand_map(kA, g.a, g.m, g.k, BM);
  const CUtensorMap b = operand_map(kB, g.b, g.n, g.k, BN);
  const Destination<C> c(g.c, g.m, g.n);
  const TileOrder tiles(g.m, g.n);
  ladder::launch(multiply<T, C, kA, kB>, tiles.blocks(ladder::sm_count()), kThreads, kShared,
                 stream, a, b, c, ladder::ceil_div(g.k, BK), tiles);
}

using ladder::bfloat16;
using ladder::half;
template void gemm_persistent::launch<gemm_tensor_nn>(const gemm_tensor::Args<half>&, cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_nn>(const gemm_tensor::Args<bfloat16>&,
                                                      cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_nt>(const gemm_tensor::Args<half>&, cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_nt>(const gemm_tensor::Args<bfloat16>&,
                                                      cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_tn>(const gemm_tensor::Args<half>&, cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_tn>(const gemm_tensor::Args<bfloat16>&,
                                                      cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_tn>(const gemm_tensor::Args<half, float>&,
                                                      cudaStream_t);
template void gemm_persistent::launch<gemm_tensor_tn>(const gemm_tensor::Args<bfloat16, float>&,
                                                      cudaStream_t);

namespace {

template <class Op>
struct Persistent {
  static constexpr ladder::Version version{"persistent: a block per SM takes tile after tile"};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    gemm_persistent::launch<Op>(g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<Persistent<gemm_tensor_nn>, gemm_tensor_nn, half, bfloat16> nn;
const ladder::Register<Persistent<gemm_tensor_nt>, gemm_tensor_nt, half, bfloat16> nt;
const ladder::Register<Persistent<gemm_tensor_tn>, gemm_tensor_tn, half, bfloat16> tn;
const ladder::Register<Persistent<gemm_tensor_tn>, gemm_tensor_tn_f32, half, bfloat16> tn_f32;

}  // namespace
