// Idea      split-K inside a cluster: where tiles are fewer than SMs, the blocks of a cluster
//           compute a tile together, each with a part of K, and reduce the accumulators through
//           distributed shared memory
// Vs v13    a block has one part of one tile. C is computed as its transpose, because wgmma takes
//           64 rows but as few as 8 columns: where C has few rows they are the columns of wgmma,
//           and no FMA is wasted. Partial sums are added in the order of the blocks, so that
//           results are reproducible
// Bound by  DRAM bandwidth where C has few rows
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      up to 16 rows 16 x 64 x 64, 11 stages of 10 KiB; up to 64 64 x 128 x 64, 4 stages of
//           24; two blocks per SM. Up to 128 128 x 128 x 64, 7 stages of 32 KiB; else 256 x 128 x
//           64, 4 stages of 48 KiB; one block per SM. A warpgroup has 64 columns
#include "device/ptx/cluster.hpp"
#include "device/sm_count.hpp"
#include "k_tiles.hpp"
#include "tiles.hpp"

#include <array>

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BK = kDepth;

/// A tile of BM x BN, and how many blocks share an SM.
template <int TileM, int TileN, int BlocksPerSm>
struct Shape {
  static constexpr int BM = TileM, BN = TileN, kBlocksPerSm = BlocksPerSm;
  static constexpr int kConsumers = BN / 64, kThreads = kConsumers * 128 + 32;
  static constexpr int kPitch =
      BN + 4;  // of accumulators: a warp's of two rows are in different banks
};

/// The ring of a shape in shared memory: of the SM's 228 KiB each block takes 1 KiB more than it
/// requests, up to 1 KiB aligns the ring to 1024 bytes, and there are the barriers.
template <class S>
struct Ring {
  static constexpr int kStage = BK * (S::BN + S::BM);  // elements
  static constexpr int kStages = (228 * 1024 / S::kBlocksPerSm - 2560) / (kStage * 2);
  static constexpr std::size_t kBytes = kStages * kStage * 2;
  static_assert(S::BM * S::kPitch * sizeof(float) <= kBytes,
                "the accumulators take the ring's place");
};

/// The tile is multiplied as its transpose: columns of C, of which there are many even where rows
/// are few, are the 64 rows of wgmma.
template <class T, class S, int kParts>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm) __cluster_dims__(kParts)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             T* c, int m, int n, int k_tiles) {
  constexpr int BM = S::BM, BN = S::BN, kThreads = S::kThreads;
  constexpr int kStages = Ring<S>::kStages, kStage = Ring<S>::kStage;
  __shared__ Mbarrier full[kStages], empty[kStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);

  // Tiles that are neighbours in time share the columns: B is the operand worth reading once.
  const int tile = blockIdx.x / kParts, tiles_m = ladder::ceil_div(m, BM);
  const int row0 = tile % tiles_m * BM, col0 = tile / tiles_m * BN;
  const int rank = cluster_rank();
  const int first = static_cast<int>(std::int64_t{k_tiles} * rank / kParts);
  const int last = static_cast<int>(std::int64_t{k_tiles} * (rank + 1) / kParts);

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], S::kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised

  const int warpgroup = threadIdx.x / 128;
  float acc[BM / 2] = {};
  PipelineState<kStages> state;
  if (threadIdx.x == S::kConsumers * 128) {  // the producer
    for (int k_tile = first; k_tile < last; ++k_tile, state.advance()) {
      T* const to = ring + state.stage * kStage;
      Mbarrier* const barrier = &full[state.stage];
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      mbarrier_wait(&empty[state.stage], state.parity ^ 1);
      mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
      load_k_tile<Major::k, BN>(to, &map_b, col0, k_tile * BK, barrier);
      load_k_tile<Major::k, BM>(to + BN * BK, &map_a, row0, k_tile * BK, barrier);
    }
  } else if (warpgroup < S::kConsumers) {
    int previous = 0;  // the previous K-tile's stage
    for (int k_tile = first; k_tile < last; ++k_tile, state.advance()) {
      const T* const from = ring + state.stage * kStage;
      const auto b = wgmma_descriptor<Major::k>(from + warpgroup * 64 * BK);
      const auto a = wgmma_descriptor<Major::k>(from + BN * BK);
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
        wgmma<BM, Major::k, Major::k, T>(acc, b + k * wgmma_step(Major::k),
                                         a + k * wgmma_step(Major::k), true);
      }
      wgmma_commit_group();
      wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
      if (k_tile > first && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
      previous = state.stage;
    }
    wgmma_wait_group<0>(acc);
  }
  __syncthreads();  // the ring is no longer in use

  float* const sums = reinterpret_cast<float*>(ring);  // [BM][kPitch]
  if (warpgroup < S::kConsumers) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* const to = sums + lane % 4 * 2 * S::kPitch + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < BM / 2; ++i) {
      to[(i / 4 * 8 + i % 2) * S::kPitch + i / 2 % 2 * 8] = acc[i];
    }
  }
  cluster_sync();

  // Reduces four neighbours per thread and iteration, with all threads of the cluster; always from
  // the first block to the last, so that the result is the same in every run. Loads from other
  // blocks have a long latency: several are in flight together. Only what is stored is loaded, or a
  // load might outlive its block.
  constexpr int kQuads = BN / 4, kAtOnce = 8 / kParts, kPerIteration = kParts * kThreads;
  const int end = min(BM, m - row0) * kQuads;
  for (int i0 = rank * kThreads + threadIdx.x; i0 < end; i0 += kAtOnce * kPerIteration) {
    auto wanted = [&](int i) { return i < end && col0 + i % kQuads * 4 < n; };
    float4 part[kAtOnce][kParts];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int i = i0 + u * kPerIteration;
      if (!wanted(i)) continue;
      const float* const at = sums + i / kQuads * S::kPitch + i % kQuads * 4;
#pragma unroll
      for (int z = 0; z < kParts; ++z) part[u][z] = cluster_load(cluster_address(at, z));
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int i = i0 + u * kPerIteration;
      if (!wanted(i)) continue;
      float4 total = part[u][0];
#pragma unroll
      for (int z = 1; z < kParts; ++z) {
        total.x += part[u][z].x;
        total.y += part[u][z].y;
        total.z += part[u][z].z;
        total.w += part[u][z].w;
      }
      T* const to = c + std::int64_t{row0 + i / kQuads} * n + col0 + i % kQuads * 4;
      *reinterpret_cast<uint2*>(to) =
          make_uint2(pack<T>(total.x, total.y), pack<T>(total.z, total.w));
    }
  }
  cluster_arrive_relaxed();  // the others have read this block's accumulators when all have arrived
  cluster_wait();
}

template <class S>
constexpr std::size_t kShared = Ring<S>::kBytes + 1024;  // to begin at 1024 n

template <class S, int kParts, class T>
void launch_cluster(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
  const CUtensorMap a = operand_map(Major::k, g.a, g.m, g.k, S::BM);
  const CUtensorMap b = operand_map(Major::k, g.b, g.n, g.k, S::BN);
  const int tiles = ladder::ceil_div(g.m, S::BM) * ladder::ceil_div(g.n, S::BN);
  ladder::launch(multiply<T, S, kParts>, tiles * kParts, S::kThreads, kShared<S>, stream, a, b, g.c,
                 g.m, g.n, ladder::ceil_div(g.k, BK));
}

template <class S, int kParts, class T>
int resident_blocks() {
  return ladder::blocks_at_once(multiply<T, S, kParts>, kParts, S::kThreads, kShared<S>);
}

constexpr std::array<int, 5> kSplits{1, 2, 3, 4, 8};  // blocks of a cluster

/// The same with `splits` blocks for a tile: one of kSplits.
template <class S, class T>
void launch_splits(const gemm_tensor::Args<T>& g, int splits, cudaStream_t stream) {
  (splits == 1   ? launch_cluster<S, 1, T>
   : splits == 2 ? launch_cluster<S, 2, T>
   : splits == 3 ? launch_cluster<S, 3, T>
   : splits == 4 ? launch_cluster<S, 4, T>
                 : launch_cluster<S, 8, T>)(g, stream);
}
template <class S, class T>
int resident_blocks(int splits) {
  return (splits == 1   ? resident_blocks<S, 1, T>
          : splits == 2 ? resident_blocks<S, 2, T>
          : splits == 3 ? resident_blocks<S, 3, T>
          : splits == 4 ? resident_blocks<S, 4, T>
                        : resident_blocks<S, 8, T>)();
}

using Shape16 = Shape<16, 64, 2>;
using Shape64 = Shape<64, 128, 2>;
using Shape128 = Shape<128, 128, 1>;
using Shape256 = Shape<256, 128, 1>;

template <class Op>
struct SplitK {
  static constexpr ladder::Version version{"blocks of a cluster split K"};

  /// As many blocks as can be resident at a time, with at least one K-tile each.
  template <class S, class T>
  static void multiply(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.m, S::BM)} * ladder::ceil_div(g.n, S::BN);
    int splits = 1;
    for (const int more : kSplits) {
      if (tiles * more <= resident_blocks<S, T>(more) && g.k >= more * BK) splits = more;
    }
    launch_splits<S>(g, splits, stream);
  }

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    (g.m <= 16    ? multiply<Shape16, T>
     : g.m <= 64  ? multiply<Shape64, T>
     : g.m <= 128 ? multiply<Shape128, T>
                  : multiply<Shape256, T>)(g, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<SplitK<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
