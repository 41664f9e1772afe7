// Idea      TF32 and fp8: a wgmma takes 32 bytes of K of every type, so K-tiles are 128 bytes deep,
//           and all that differs is how many elements that is
// Vs v13    wgmma reads these types along K only, so A is [M][K] and B is [N][K]: nt. Accumulators
//           of TF32 products are stored from registers, without conversion
// Bound by  tf32 the tensor cores, and power; e4m3, whose products take half the time, also the L2
// Limits    compute capability 9.0; rows of A and B start at multiples of 16 bytes, of e4m3 also
//           those of C
// Tile      128 x 256 x 128 bytes, two warpgroups of 64 x 256, 4 stages of 48 KiB and, of e4m3, 4
//           KiB of epilogue tiles per warp; one block per SM
//
// Accumulators of e4m3 keep 14 bits only, cut off after every 32 products: what cuBLASLt calls fast
// accumulation, which v00b does not request. v19 does better. v23 launches this kernel too
// (k_major.hpp).
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "k_major.hpp"
#include "store.hpp"
#include "tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;
using gemm_k_major::Operand;

constexpr int BM = 128, BN = 256, kDepthBytes = 128;
template <class T>
constexpr int BK = kDepthBytes / sizeof(T);
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = (BM + BN) * kDepthBytes;  // bytes

/// Whether C is stored through epilogue tiles by TMA, or from registers.
template <class T>
constexpr bool kByTma = std::is_same_v<gemm_tensor::Output<T>, ladder::bfloat16>;
template <class T>
constexpr std::size_t kShared = kStages* kStage +
                                (kByTma<T> ? kConsumers * 4 * 2 * EpilogueTile::kElements * 2 : 0) +
                                1024;  // to begin at 1024 n
using TileOrder = Tiles<BM, BN, 16>;

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ CUtensorMap map_c, gemm_tensor::Args<T> g, TileOrder tiles) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  unsigned char* const shared = ladder::dynamic_shared<unsigned char>();
  unsigned char* const ring = shared + (-shared_address(shared) & 1023);
  const int k_tiles = ladder::ceil_div(g.k, BK<T>);

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
        tensor_load(to, &map_a, k_tile * BK<T>, corner.y, barrier);
        tensor_load(to + BM * kDepthBytes, &map_b, k_tile * BK<T>, corner.x, barrier);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Broadcast by a shuffle, so that the compiler knows it is the same in all lanes: descriptors are
  // computed from it, and belong in uniform registers.
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
    float acc[BN / 2];
    int previous = 0;  // the previous K-tile's stage
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      const unsigned char* const from = ring + state.stage * kStage;
      const auto a = wgmma_descriptor<Major::k>(from + warpgroup * 64 * kDepthBytes);
      const auto b = wgmma_descriptor<Major::k>(from + BM * kDepthBytes);
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < kDepthBytes / 32; ++k) {
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
    if constexpr (kByTma<T>) {
      auto* const epilogue_tiles = reinterpret_cast<ladder::bfloat16*>(ring + kStages * kStage);
      store_epilogue_tiles(map_c, epilogue_tiles + warp * 2 * EpilogueTile::kElements,
                           corner.y + warp * EpilogueTile::kRows, corner.x, acc);
    } else {
      store_pairs(g.c, g.m, g.n, corner.y + warp * 16, corner.x, acc);
    }
  }
  if (kByTma<T> && lane == 0) bulk_wait_group_read<0>();
}

/// An operand for TMA, in K-tiles of `rows`.
template <class T>
CUtensorMap k_tiles_map(const Operand<T>& operand, int mn, int k, int rows) {
  return ladder::tensor_map(
      ladder::DTypeOf<T>::value, operand.data,
      {{.size = k, .stride = sizeof(T), .box = BK<T>},
       {.size = mn, .stride = operand.pitch * std::int64_t{sizeof(T)}, .box = rows}},
      CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace

template <class T>
void gemm_k_major::launch(const Operand<T>& a, const Operand<T>& b, const gemm_tensor::Args<T>& g,
                          cudaStream_t stream) {
  const CUtensorMap map_a = k_tiles_map(a, g.m, g.k, BM), map_b = k_tiles_map(b, g.n, g.k, BN);
  CUtensorMap map_c{};
  if constexpr (kByTma<T>) map_c = output_map(g.c, g.m, g.n, EpilogueTile::kRows);
  const TileOrder tiles(g.m, g.n);
  ladder::launch(multiply<T>, tiles.blocks(ladder::sm_count()), kThreads, kShared<T>, stream, map_a,
                 map_b, map_c, g, tiles);
}

using ladder::float8_e4m3;
using ladder::tfloat32;
template void gemm_k_major::launch(const Operand<tfloat32>&, const Operand<tfloat32>&,
                                   const gemm_tensor::Args<tfloat32>&, cudaStream_t);
template void gemm_k_major::launch(const Operand<float8_e4m3>&, const Operand<float8_e4m3>&,
                                   const gemm_tensor::Args<float8_e4m3>&, cudaStream_t);

namespace {

struct Tf32Fp8 {
  static constexpr ladder::Version version{"K-tiles of 128 bytes, of TF32 and fp8"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    gemm_k_major::launch<T>({g.a, g.k}, {g.b, g.k}, g, stream);
  }
  template <class T>
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (kByTma<T> && p.n % 8 != 0) {
      return ladder::unsupported("rows of C do not start at multiples of 16 bytes");
    }
    return needs_aligned_rows<gemm_tensor_nt, T>(p);
  }
};

const ladder::Register<Tf32Fp8, gemm_tensor_nt, tfloat32, float8_e4m3> registration;

}  // namespace
