// Idea      warp specialisation: a producer warp issues TMA, two consumer warpgroups issue wgmma
// Vs v11    no warpgroup waits for another: each releases a stage when it has read it, and the
//           producer issues the next load. setmaxnreg moves the producer's registers to the
//           warpgroups that have the accumulators. By itself that gains next to nothing (within
//           0.5 % on an H200); it is what v13 is built on
// Bound by  the start and the end of a block, during which its SM multiplies nothing
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      128 x 256 x 64, two warpgroups of 64 x 256, 4 stages of 48 KiB, one block per SM
#include "device/ptx/setmaxnreg.hpp"
#include "k_tiles.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 256, BK = kDepth;
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = (BM + BN) * BK;                                   // elements
constexpr std::size_t kShared = kStages * kStage * sizeof(half) + 1024;  // to begin at 1024 n

template <class T, Major kA, Major kB>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             gemm_tensor::Args<T> g, int tiles_n) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int k_tiles = ladder::ceil_div(g.k, BK);

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
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      T* const to = ring + state.stage * kStage;
      Mbarrier* const barrier = &full[state.stage];
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      mbarrier_wait(&empty[state.stage], state.parity ^ 1);
      mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
      load_k_tile<kA, BM>(to, &map_a, row0, k_tile * BK, barrier);
      load_k_tile<kB, BN>(to + BM * BK, &map_b, col0, k_tile * BK, barrier);
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
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

  // Two neighbours at a time: a warp stores 16 bytes of each of 8 rows.
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = row0 + warpgroup * 64 + warp * 16 + i * 8 + lane / 4;
      const int col = col0 + j * 8 + lane % 4 * 2;
      if (row >= g.m || col >= g.n) continue;
      *reinterpret_cast<std::uint32_t*>(g.c + std::int64_t{row} * g.n + col) =
          pack<T>(acc[j * 4 + i * 2], acc[j * 4 + i * 2 + 1]);
    }
  }
}

template <class Op>
struct WarpSpecialised {
  static constexpr ladder::Version version{"warp specialisation: a producer, two consumers"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const CUtensorMap a = operand_map(kMajorA<Op>, g.a, g.m, g.k, BM);
    const CUtensorMap b = operand_map(kMajorB<Op>, g.b, g.n, g.k, BN);
    const int tiles_m = ladder::ceil_div(g.m, BM), tiles_n = ladder::ceil_div(g.n, BN);
    ladder::launch(multiply<T, kMajorA<Op>, kMajorB<Op>>, tiles_m * tiles_n, kThreads, kShared,
                   stream, a, b, g, tiles_n);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<WarpSpecialised<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
