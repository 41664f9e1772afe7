// Idea      all of K at once: a block of four warps loads its part of A and of B as v27 does, multiplies
//           them, and ends
// Vs v27    no ring and no producers: with few K-tiles they have nothing to overlap, and a block of 512
//           threads has an SM for itself, which waits while it begins and while it ends. Of these there
//           are six on an SM, and while one loads another stores
// Bound by  DRAM bandwidth: of C, as K is short
// Limits    compute capability 9.0; K of up to 256
// Tile      64 x 64 and all of K, in K-tiles 64 deep, or one of 32; a thread has 4 chunks in flight, in two
//           vectors each, or 2
#include "device/divisor.hpp"
#include "realigned.hpp"
#include "realigned_loads.hpp"

#include <algorithm>
#include <cmath>

namespace gemm_realigned {
namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 64, BN = 64, BK = kDepth, kThreads = 128, kBlocksPerSm = 6;
constexpr int kKTile = BK * (BM + BN);  // elements
constexpr std::size_t kMostShared = 227 * 1024;

template <class T>
std::size_t shared_bytes(int k_tiles) {
  return k_tiles * kKTile * sizeof(T) + 1024;  // to begin at 1024 n
}

/// kDeep: of a K-tile.
template <class Op, class T, int kDeep>
struct Operands {
  gemm_pushed_sums::Realigned<kMajorA<Op>, BM, T, kDeep> a;
  gemm_pushed_sums::Realigned<kMajorB<Op>, BN, T, kDeep> b;
};

/// Loads a part of a K-tile: 64 rows of M or N.
template <class Operand, class T>
__device__ __forceinline__ void load(T* to, const Operand& operand, int mn, int k) {
  constexpr int kChunks = Operand::kChunks / kThreads;  // of a thread
  const int thread = threadIdx.x;
  gemm_pushed_sums::TwoVectors both[kChunks];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    both[i] = operand.load(operand.place(i * kThreads + thread, mn, k));
  }
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int number = i * kThreads + thread;
    operand.store(to, operand.place(number, mn, k), number, both[i]);
  }
  if (!operand.is_at_edge(mn, k)) return;
  __syncthreads();  // the chunks are stored
  if (thread < 16) operand.complete(to, mn, k, thread);
}

template <class Op, class T, class C, int kDeep>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    multiply(const __grid_constant__ Operands<Op, T, kDeep> of, C* c, int m, int n, int k_tiles,
             ladder::Divisor tiles_n) {
  constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  T* const shared = ladder::dynamic_shared<T>();
  T* const tiles = shared + (-shared_address(shared) & 1023) / sizeof(T);
  // Tiles that are neighbours in time are so in a row of C, and fill the lines that both have a part of.
  const int tile = static_cast<int>(blockIdx.x);
  const int row0 = tiles_n.quotient(tile) * BM, col0 = tiles_n.remainder(tile) * BN;

  for (int i = 0; i < k_tiles; ++i) {
    load(tiles + i * kKTile, of.a, row0, i * BK);
    load(tiles + i * kKTile + BM * BK, of.b, col0, i * BK);
  }
  fence_proxy_async();  // what was stored is seen by wgmma
  __syncthreads();

  float acc[BN / 2] = {};
  for (int i = 0; i < k_tiles; ++i) {
    wgmma_fence();
    const auto a = wgmma_descriptor<kA>(tiles + i * kKTile);
    const auto b = wgmma_descriptor<kB>(tiles + i * kKTile + BM * BK);
#pragma unroll
    for (int k = 0; k < kDeep / 16; ++k) {
      wgmma<BN, kA, kB, T>(acc, a + k * wgmma_step(kA), b + k * wgmma_step(kB), true);
    }
    wgmma_commit_group();
  }
  wgmma_wait_group<0>(acc);

  const int warp = threadIdx.x / 32, row = row0 + warp * 16;
  if constexpr (std::is_same_v<C, float>) {
    store_pairs(c, m, n, row, col0, acc);
  } else {
    __syncthreads();  // all warps have multiplied: the tiles' memory is free
    store_rows(c, m, n, tiles + warp * EpilogueTile::kElements, row, col0, acc);
  }
}

template <class Op>
struct ShortK {
  static constexpr ladder::Version version{"all of a short K at once, many small blocks"};
  // Half a K-tile, one and several; rows that end within the last vector
  static constexpr gemm_tensor::Problem test_problems[] = {
      {259, 5, 23}, {67, 131, 64}, {70, 129, 251}};

  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    launch_short_k<Op>(g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.k <= kShortK) return ladder::supported();
    return ladder::unsupported("K is more than %d", kShortK);
  }
};

const ladder::Register<ShortK<gemm_tensor_nn>, gemm_tensor_nn, ladder::bfloat16> nn;
const ladder::Register<ShortK<gemm_tensor_nt>, gemm_tensor_nt, ladder::half, ladder::bfloat16> nt;
const ladder::Register<ShortK<gemm_tensor_tn>, gemm_tensor_tn, ladder::bfloat16> tn;
const ladder::Register<ShortK<gemm_tensor_tn>, gemm_tensor_tn_f32, ladder::bfloat16> tn_f32;

}  // namespace

template <class Op, class T, class C>
double ns_of_short_k(const gemm_tensor::Args<T, C>& g) {
  // Of an H100, as v27's. A block's K-tiles take longer beside others on its SM, less so if they are half as
  // deep, and C half as long again where its rows begin anywhere. DRAM's are bytes per ns.
  constexpr double kOfTile = 230, kOfKTile = 2070, kDram = 2040;
  const double beside = g.k <= BK / 2 ? 300 : 460;
  const int k_tiles = ladder::ceil_div(g.k, BK);
  const double m = g.m, n = g.n, k = g.k, sms = ladder::sm_count();
  const double tiles = std::ceil(m / BM) * std::ceil(n / BN);
  const double on_an_sm = std::min<double>(kBlocksPerSm, kMostShared / shared_bytes<T>(k_tiles));
  auto of_a_block = [&](double at_once) {
    return kOfTile + k_tiles * (kOfKTile + beside * std::max(1., at_once));
  };
  const double rounds = std::floor(tiles / (sms * on_an_sm)),
               rest = tiles - rounds * sms * on_an_sm;
  const double of_an_sm = rounds * of_a_block(on_an_sm) + (rest > 0 ? of_a_block(rest / sms) : 0);
  const double bytes = (m * k + k * n) * sizeof(T) + m * n * sizeof(C) * (g.n % 8 > 0 ? 1.5 : 1);
  return std::hypot(of_an_sm, bytes / kDram);
}

namespace {

template <int kDeep, class Op, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
  const Operands<Op, T, kDeep> operands{
      {g.a, Op::kTransposedA ? g.k : g.m, Op::kTransposedA ? g.m : g.k, pitch_of_a<Op>(g)},
      {g.b, Op::kTransposedB ? g.n : g.k, Op::kTransposedB ? g.k : g.n, pitch_of_b<Op>(g)}};
  const int tiles_m = ladder::ceil_div(g.m, BM), tiles_n = ladder::ceil_div(g.n, BN);
  const int k_tiles = ladder::ceil_div(g.k, BK);
  ladder::launch(multiply<Op, T, C, kDeep>, tiles_m * tiles_n, kThreads, shared_bytes<T>(k_tiles),
                 stream, operands, g.c, g.m, g.n, k_tiles, ladder::Divisor(tiles_n));
}

}  // namespace

template <class Op, class T, class C>
void launch_short_k(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
  if (g.k <= BK / 2) return launch<BK / 2, Op>(g, stream);
  launch<BK, Op>(g, stream);
}

#define LADDER_INSTANTIATE(Op, T, C)                                       \
  template double ns_of_short_k<Op, T, C>(const gemm_tensor::Args<T, C>&); \
  template void launch_short_k<Op, T, C>(const gemm_tensor::Args<T, C>&, cudaStream_t);
LADDER_EACH_PRODUCT(LADDER_INSTANTIATE)
#undef LADDER_INSTANTIATE

}  // namespace gemm_realigned
