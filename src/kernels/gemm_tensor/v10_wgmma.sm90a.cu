// Idea      wgmma: a warpgroup multiplies 64 x 128 x 16 in one asynchronous instruction, with
//           operands in shared memory; TMA loads the K-tiles
// Vs v03    no ldmatrix and no fragments of A and B in registers; 4 instructions per K-tile instead
//           of hundreds, and tensor cores at the rate that mma.sync does not reach on Hopper. The
//           swizzle is TMA's
// Bound by  shared memory and the L2: a tile of 128 x 128 loads an element for 64 FMAs
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      128 x 128 x 64, two warpgroups of 64 x 128, 3 stages of 32 KiB, two blocks per SM: one
//           multiplies while the other starts or ends
#include "k_tiles.hpp"

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 128, BK = kDepth;
constexpr int kStages = 3, kWarpgroups = BM / 64, kThreads = kWarpgroups * 128;
constexpr int kStage = (BM + BN) * BK;                                   // elements
constexpr std::size_t kShared = kStages * kStage * sizeof(half) + 1024;  // to begin at 1024 n

template <class T, Major kA, Major kB>
__global__ void __launch_bounds__(kThreads, 2)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             gemm_tensor::Args<T> g, int tiles_n) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);
  const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
  const int k_tiles = ladder::ceil_div(g.k, BK);
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;

  // Issued by one thread: loads a K-tile into its stage as soon as both warpgroups have released
  // it. A new mbarrier reports the previous phase complete, so the first pass does not block.
  const bool leader = threadIdx.x == 0;
  auto fetch = [&](int k_tile) {
    const int stage = k_tile % kStages;
    T* const to = ring + stage * kStage;
    mbarrier_wait(&empty[stage], k_tile / kStages % 2 ^ 1);
    mbarrier_arrive_expect_tx(&full[stage], kStage * sizeof(T));
    load_k_tile<kA, BM>(to, &map_a, row0, k_tile * BK, &full[stage]);
    load_k_tile<kB, BN>(to + BM * BK, &map_b, col0, k_tile * BK, &full[stage]);
  };
  if (leader) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], kWarpgroups);
    }
    fence_proxy_async();
    for (int s = 0; s < min(kStages, k_tiles); ++s) fetch(s);
  }
  __syncthreads();  // the mbarriers are initialised

  float acc[BN / 2];
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    const int stage = k_tile % kStages;
    const T* const from = ring + stage * kStage;
    const auto a = wgmma_descriptor<kA>(from + warpgroup * 64 * BK);
    const auto b = wgmma_descriptor<kB>(from + BM * BK);
    mbarrier_wait(&full[stage], k_tile / kStages % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / 16; ++k) {
      wgmma<BN, kA, kB, T>(acc, a + k * wgmma_step(kA), b + k * wgmma_step(kB), k_tile + k > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
    if (k_tile > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[(k_tile - 1) % kStages]);
    if (k_tile > 0 && leader && k_tile - 1 + kStages < k_tiles) fetch(k_tile - 1 + kStages);
    __syncwarp();  // wgmma needs converged warps
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
struct Wgmma {
  static constexpr ladder::Version version{"wgmma with operands in shared memory, loaded by TMA"};

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

const ladder::Register<Wgmma<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<Wgmma<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;
const ladder::Register<Wgmma<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;

}  // namespace
