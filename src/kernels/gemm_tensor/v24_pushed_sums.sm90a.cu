// Idea      push instead of pull: the blocks of a cluster send each other their accumulators as
//           soon as they have them, and each waits for what it receives, instead of all for all
// Vs v15    st.async stores accumulators from registers to the shared memory of the block that
//           reduces them, and counts as bytes at an mbarrier there: two cluster barriers and the
//           round trip of every load are gone. Tiles of 128 x 64, so that problems with few tiles,
//           where the ends of blocks weigh most, have more of them
// Bound by  shared memory: 24 KiB are written and 24 read for 256 cycles of the tensor cores
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      128 x 64 x 64, a warpgroup with 64 columns; stages of 24 KiB, as many as fit beside at
//           most 32 KiB of accumulators; one block per SM. v20 has this kernel for other operations
//           and shapes (pushed_sums.hpp)
#include "device/ptx/cluster.hpp"
#include "device/ptx/stmatrix.hpp"
#include "device/sm_count.hpp"
#include "device/vector.hpp"
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
};

/// Shared memory of a block: the ring, then the accumulators that others send it, then an epilogue
/// tile of C for each warp. The block reduces and stores a part of the tile's rows.
template <class S, int kParts>
struct SharedLayout {
  static constexpr int kConsumerThreads = S::kConsumers * 128;  // threads
  static constexpr int kRows = S::BM / kParts;
  static constexpr int kMine = kRows / 2;  // accumulators of a thread
  static constexpr int kQuads =
      (kParts - 1) * kMine / 4 * kConsumerThreads;  // float4s from the others
  static constexpr int kEpilogueTile = kRows * 16;  // elements
  static constexpr std::size_t kBehindRing =
      kQuads * sizeof(float4) + S::kConsumers * 4 * kEpilogueTile * std::size_t{2};

  static constexpr std::size_t kStage = BK * (S::BN + S::BM);  // elements
  static constexpr int kStages = (228 * 1024 / S::kBlocksPerSm - 2560 - kBehindRing) / (kStage * 2);
  static constexpr std::size_t kShared = kStages * kStage * 2 + kBehindRing + 1024;

  static_assert(kRows % 16 == 0,
                "16 x 16 accumulators of a warp go into an epilogue tile at a time");
  static_assert(kStages >= 2);
};

/// The tile is multiplied as its transpose: columns of C are the 64 rows of wgmma.
template <class T, class S, int kParts>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm) __cluster_dims__(kParts)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             T* c, int m, int n, int k_tiles) {
  using R = SharedLayout<S, kParts>;
  constexpr int BM = S::BM, BN = S::BN, kStages = R::kStages, kStage = R::kStage;
  __shared__ Mbarrier full[kStages], empty[kStages], received;
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);
  float4* const inbox = reinterpret_cast<float4*>(ring + kStages * kStage);

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
    mbarrier_init(&received, 1);
    mbarrier_arrive_expect_tx(&received, R::kQuads * sizeof(float4));
    fence_proxy_async();
    fence_mbarrier_init();
  }
  __syncthreads();           // the mbarriers are initialised
  cluster_arrive_relaxed();  // so that the other blocks know

  const int warpgroup = threadIdx.x / 128;
  PipelineState<kStages> state;
  if (warpgroup == S::kConsumers) {  // the producer
    if (threadIdx.x == S::kConsumers * 128) {
      for (int k_tile = first; k_tile < last; ++k_tile, state.advance()) {
        T* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
        load_k_tile<Major::k, BN>(to, &map_b, col0, k_tile * BK, barrier);
        load_k_tile<Major::k, BM>(to + BN * BK, &map_a, row0, k_tile * BK, barrier);
      }
    }
    cluster_wait();
    return;
  }

  float acc[BM / 2] = {};
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
  cluster_wait();

  // Accumulators stay in the order of registers: thread t sends to thread t of another block.
  constexpr int kMine = R::kMine, kQuads = kMine / 4;
#pragma unroll
  for (int z = 0; z < kParts; ++z) {
    if (z == rank) continue;
    const int slot = rank - (rank > z);
    const unsigned to =
        cluster_address(inbox + slot * kQuads * R::kConsumerThreads + threadIdx.x, z);
    const unsigned barrier = cluster_address(&received, z);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float* const s = acc + z * kMine + q * 4;
      cluster_store_async(to + q * R::kConsumerThreads * sizeof(float4),
                          make_float4(s[0], s[1], s[2], s[3]), barrier);
    }
  }
  mbarrier_wait_cluster(&received, 0);  // also: no other block accesses this one any more

  // Always from the first block to the last, so that the result is the same in every run.
  float total[kMine];
#pragma unroll
  for (int z = 0; z < kParts; ++z) {
    const float4* const from =
        inbox + (z - (z > rank)) * kQuads * R::kConsumerThreads + threadIdx.x;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float* const s = acc + z * kMine + q * 4;
      const float4 part =
          z == rank ? make_float4(s[0], s[1], s[2], s[3]) : from[q * R::kConsumerThreads];
      float* const t = total + q * 4;
      t[0] = z == 0 ? part.x : t[0] + part.x;
      t[1] = z == 0 ? part.y : t[1] + part.y;
      t[2] = z == 0 ? part.z : t[2] + part.z;
      t[3] = z == 0 ? part.w : t[3] + part.w;
    }
  }

  // An epilogue tile is kRows rows of 16 columns of C: two chunks, which are exchanged where r / 4
  // is odd, so that four rows are all banks once, and eight rows of one chunk are, too.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* const epilogue_tile = reinterpret_cast<T*>(inbox + R::kQuads) + warp * R::kEpilogueTile;
  auto chunk = [&](int r, int i) { return epilogue_tile + r * 16 + (i ^ r / 4 % 2) * 8; };
#pragma unroll
  for (int r = 0; r < R::kRows; r += 16) {  // four matrices: 8 rows of C left and right, 8 more
    const float* const s = total + r / 2;
    stmatrix_transposed(
        chunk(r + lane / 16 * 8 + lane % 8, lane / 8 % 2),
        {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
  }
  __syncwarp();
  const int row = row0 + rank * R::kRows, col = col0 + warp * 16 + lane % 2 * 8;
#pragma unroll
  for (int r = lane / 2; r < R::kRows; r += 16) {
    if (row + r >= m || col >= n) continue;
    ladder::Vec128<T>::load(chunk(r, lane % 2)).store(c + std::int64_t{row + r} * n + col);
  }
}

template <class S, int kParts, class T>
void launch_cluster(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
  const CUtensorMap a = operand_map(Major::k, g.a, g.m, g.k, S::BM);
  const CUtensorMap b = operand_map(Major::k, g.b, g.n, g.k, S::BN);
  const int tiles = ladder::ceil_div(g.m, S::BM) * ladder::ceil_div(g.n, S::BN);
  ladder::launch(multiply<T, S, kParts>, tiles * kParts, S::kThreads,
                 SharedLayout<S, kParts>::kShared, stream, a, b, g.c, g.m, g.n,
                 ladder::ceil_div(g.k, BK));
}
template <class S, int kParts, class T>
int resident_blocks() {
  return ladder::blocks_at_once(multiply<T, S, kParts>, kParts, S::kThreads,
                                SharedLayout<S, kParts>::kShared);
}

constexpr std::array<int, 4> kSplits{1, 2, 4, 8};  // blocks of a cluster: BM / 16 is divided evenly

/// The same with `splits` blocks for a tile: one of kSplits.
template <class S, class T>
void launch_splits(const gemm_tensor::Args<T>& g, int splits, cudaStream_t stream) {
  (splits == 1   ? launch_cluster<S, 1, T>
   : splits == 2 ? launch_cluster<S, 2, T>
   : splits == 4 ? launch_cluster<S, 4, T>
                 : launch_cluster<S, 8, T>)(g, stream);
}
template <class S, class T>
int resident_blocks(int splits) {
  return (splits == 1   ? resident_blocks<S, 1, T>
          : splits == 2 ? resident_blocks<S, 2, T>
          : splits == 4 ? resident_blocks<S, 4, T>
                        : resident_blocks<S, 8, T>)();
}

template <class Op>
struct PushedSums {
  static constexpr ladder::Version version{"blocks that split K push accumulators by st.async"};
  // a tile by a cluster of eight blocks and of two
  static constexpr gemm_tensor::Problem test_problems[] = {{100, 56, 520}, {100, 56, 200}};
  using Tile = Shape<128, 64, 1>;

  /// As many blocks as can be resident at a time, with at least one K-tile each.
  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const std::int64_t tiles =
        std::int64_t{ladder::ceil_div(g.m, Tile::BM)} * ladder::ceil_div(g.n, Tile::BN);
    int splits = 1;
    for (const int more : kSplits) {
      if (tiles * more <= resident_blocks<Tile, T>(more) && g.k >= more * BK) splits = more;
    }
    launch_splits<Tile>(g, splits, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<PushedSums<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
