// Idea      fp8 promotion: the tensor cores accumulate four K-tiles of 128, which are then added to
//           fp32 accumulators on the CUDA cores, with rounding
// Vs v18    a second set of accumulators, so the tile is half as wide. While one warpgroup adds,
//           the other multiplies; after every single K-tile there would be more additions than that
//           can hide
// Bound by  the L2: at full rate 64 bytes per cycle would go from there to every SM; and power
// Limits    compute capability 9.0; K is a multiple of 16, N of 8
// Tile      128 x 128 x 128, two warpgroups of 64 x 128, 6 stages of 32 KiB and 4 KiB of epilogue
//           tiles per warp; one block per SM
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

using T = ladder::float8_e4m3;
using ladder::bfloat16;

constexpr int BM = 128, BN = 128, BK = 128;
constexpr int kTogether = 4;  // K-tiles that the tensor cores accumulate
constexpr int kStages = 6, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = (BM + BN) * BK;  // bytes

constexpr std::size_t kShared = kStages * kStage +
                                kConsumers * 4 * 2 * EpilogueTile::kElements * sizeof(bfloat16) +
                                1024;  // to begin at 1024 n
using TileOrder = Tiles<BM, BN, 16>;

__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ CUtensorMap map_c, int k_tiles, TileOrder tiles) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  unsigned char* const shared = ladder::dynamic_shared<unsigned char>();
  unsigned char* const ring = shared + (-shared_address(shared) & 1023);

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
        unsigned char* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage);
        tensor_load(to, &map_a, k_tile * BK, corner.y, barrier);
        tensor_load(to + BM * BK, &map_b, k_tile * BK, corner.x, barrier);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto* const epilogue_tiles =
      reinterpret_cast<bfloat16*>(ring + kStages * kStage) + warp * 2 * EpilogueTile::kElements;
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    float acc[BN / 2] = {};
    for (int first = 0; first < k_tiles; first += kTogether) {
      float together[BN / 2];
      int previous = 0;  // the previous K-tile's stage
#pragma unroll
      for (int s = 0; s < kTogether; ++s, state.advance()) {
        const unsigned char* const from = ring + state.stage * kStage;
        const auto a = wgmma_descriptor<Major::k>(from + warpgroup * 64 * BK);
        const auto b = wgmma_descriptor<Major::k>(from + BM * BK);
        mbarrier_wait(&full[state.stage], state.parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK / 32; ++k) {
          wgmma<BN, Major::k, Major::k, T>(together, a + k * wgmma_step(Major::k),
                                           b + k * wgmma_step(Major::k), s + k > 0);
        }
        wgmma_commit_group();
        if (s > 0) {
          wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
          if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
        }
        previous = state.stage;
      }
      wgmma_wait_group<0>(together);
      if (threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) acc[i] += together[i];
    }
    const int2 corner = tiles.at(tile);
    store_epilogue_tiles(map_c, epilogue_tiles, corner.y + warp * EpilogueTile::kRows, corner.x,
                         acc);
  }
  if (lane == 0) bulk_wait_group_read<0>();
}

/// A or B for TMA: [mn][k], in K-tiles of `rows`.
CUtensorMap k_tiles_map(const T* matrix, int mn, int k, int rows) {
  return ladder::tensor_map(
      ladder::DType::e4m3, matrix,
      {{.size = k, .stride = 1, .box = BK}, {.size = mn, .stride = k, .box = rows}},
      CU_TENSOR_MAP_SWIZZLE_128B);
}

struct Fp8Promoted {
  static constexpr ladder::Version version{"fp8, K-tiles promoted to fp32"};

  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const TileOrder tiles(g.m, g.n);
    const int k_tiles =
        ladder::ceil_div(g.k, kTogether * BK) * kTogether;  // beyond K TMA fills with zeros
    ladder::launch(multiply, tiles.blocks(ladder::sm_count()), kThreads, kShared, stream,
                   k_tiles_map(g.a, g.m, g.k, BM), k_tiles_map(g.b, g.n, g.k, BN),
                   output_map(g.c, g.m, g.n, EpilogueTile::kRows), k_tiles, tiles);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.n % 8 != 0) {
      return ladder::unsupported("rows of C do not start at multiples of 16 bytes");
    }
    return needs_aligned_rows<gemm_tensor_nt, T>(p);
  }
};

const ladder::Register<Fp8Promoted, gemm_tensor_nt, T> registration;

}  // namespace
