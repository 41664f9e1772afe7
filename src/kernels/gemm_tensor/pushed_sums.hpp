// v24's kernel, generalised for v20: any operation and shape, more parts than pieces of a tile, and C in
// fp32 too. For small problems, which are over soon after they have begun: a block has no more stages
// than K-tiles, so that more blocks fit on an SM; blocks that need not share one have as many as it has
// room for; the maps are on their way before the barriers are made; and a tile that is not split is no
// cluster.
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/ptx/elect.hpp"
#include "device/ptx/griddepcontrol.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/stmatrix.hpp"
#include "device/sm_count.hpp"
#include "device/uniform.hpp"
#include "device/vector.hpp"
#include "store.hpp"
#include "tiles.hpp"

#include <algorithm>
#include <array>

namespace gemm_pushed_sums {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BK = kDepth;

/// A tile of BM x BN, and how many blocks share an SM at least, with all their stages.
template <int TileM, int TileN, int BlocksPerSm>
struct Shape {
  static constexpr int BM = TileM, BN = TileN, kBlocksPerSm = BlocksPerSm;
  static constexpr int kConsumers = BN / 64;
};

/// Shared memory of a block: the ring, then the accumulators that others send it, then an epilogue
/// tile of C for each warp. The first kReducers blocks reduce and store a part of the tile's rows each.
template <class S, Major kA, int kParts>
struct SharedLayout {
  static constexpr int kConsumerThreads = S::kConsumers * 128;  // threads
  static constexpr int kReducers = [] {                         // as many as divide the tile evenly
    int reducers = std::min(kParts, S::BM / 16);
    while (S::BM / 16 % reducers > 0) --reducers;
    return reducers;
  }();
  static constexpr int kRows = S::BM / kReducers;
  static constexpr int kMine = kRows / 2;  // accumulators of a thread
  static constexpr int kQuads =
      (kParts - 1) * kMine / 4 * kConsumerThreads;  // float4s from the others
  static constexpr int kEpilogueTile = kRows * 16;  // elements
  static constexpr std::size_t kBehindRing =
      kQuads * sizeof(float4) + S::kConsumers * 4 * kEpilogueTile * std::size_t{2};

  static constexpr std::size_t kStage = BK * (S::BN + kHeld<kA, S::BM>);  // elements
  static constexpr int most_stages(int blocks_per_sm) {
    return std::min<int>(16, (228 * 1024 / blocks_per_sm - 2560 - kBehindRing) / (kStage * 2));
  }
  static constexpr int kMostStages = most_stages(1), kSharedStages = most_stages(S::kBlocksPerSm);
  static constexpr std::size_t bytes(int stages) {
    return stages * kStage * 2 + kBehindRing + 1024;  // to begin at 1024 n
  }

  static_assert(kRows % 16 == 0,
                "16 x 16 accumulators of a warp go into an epilogue tile at a time");
  static_assert(kSharedStages >= 2);
};

/// The ring as a producer sees it: kStage elements of a stage, columns of B first.
template <class T>
struct Ring {
  T* stages;
  Mbarrier *full, *empty;
  ladder::StagesState state;
};

/// A and B by TMA, whose rows start at multiples of 16 bytes: two threads issue by turns.
template <class Op, class Element, class Shape>
struct TmaLoads {
  using T = Element;
  using S = Shape;
  static constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  static constexpr int kIssuers = 2, kThreads = kIssuers * 32;  // producers
  static constexpr int kArrivals = 1;                           // of them, that fill a stage

  template <class C>
  explicit TmaLoads(const gemm_tensor::Args<T, C>& g)
      : a(operand_map(kA, g.a, g.m, g.k, S::BM, kDepth, g.pitch_a)),
        b(operand_map(kB, g.b, g.n, g.k, S::BN, kDepth, g.pitch_b)) {}

  __device__ __forceinline__ void prefetch() const {
    prefetch_map(&b);
    prefetch_map(&a);
  }
  /// By all producers, before the mbarriers are known to be initialised.
  __device__ __forceinline__ void fill(Ring<T> ring, int row0, int col0, int first,
                                       int last) const {
    constexpr int kStage = BK * (S::BN + kHeld<kA, S::BM>);
    constexpr int kBlock = S::kConsumers * 128 + kThreads;
    const int issuer = ladder::uniform(threadIdx.x / 32 % kIssuers);
    auto load = [&](int k_tile) {
      T* const to = ring.stages + ring.state.stage * kStage;
      Mbarrier* const barrier = &ring.full[ring.state.stage];
      mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
      load_k_tile<kB, S::BN>(to, &b, col0, k_tile * BK, barrier);
      load_k_tile<kA, kHeld<kA, S::BM>>(to + S::BN * BK, &a, row0, k_tile * BK, barrier);
    };
    named_barrier_sync<kBlock>(kReady);
    if (issuer == 0 && elect_one()) {
      griddepcontrol_wait();  // for copies of A and B
      load(first);
    }
    __syncwarp();
    named_barrier_arrive<kBlock>(kFirstLoad);
    if (!elect_one()) return;
    griddepcontrol_wait();
    for (int k_tile = first; k_tile < last; ++k_tile, ring.state.advance()) {
      if (k_tile == first || (k_tile - first) % kIssuers != issuer) continue;
      // In the first pass all stages are free.
      if (k_tile - first >= ring.state.stages) {
        mbarrier_wait(&ring.empty[ring.state.stage], ring.state.parity ^ 1);
      }
      load(k_tile);
    }
  }

  CUtensorMap a, b;
};

template <class Loads>
constexpr int kThreads = Loads::S::kConsumers * 128 + Loads::kThreads;

/// What a block has of a tile, K-tiles from first to last, and where it finds them.
template <class T>
struct Part {
  T* ring;
  float4* inbox;
  Mbarrier *full, *empty, *received;
  int row0, col0, rank, first, last, stages;
};

/// By the consumers. The tile is multiplied as its transpose: columns of C are the 64 rows of wgmma.
template <class C, class Loads, int kParts>
__device__ __forceinline__ void multiply_part(const Part<typename Loads::T>& part, C* c, int m,
                                              int n) {
  using S = typename Loads::S;
  using T = typename Loads::T;
  constexpr Major kA = Loads::kA, kB = Loads::kB;
  using R = SharedLayout<S, kA, kParts>;
  constexpr int BM = S::BM, BN = S::BN, kStage = R::kStage, kReducers = R::kReducers;
  constexpr bool kSplit = kParts > 1;
  [[maybe_unused]] constexpr bool kByTma = Loads::kArrivals == 1;
  const auto [ring, inbox, full, empty, received, row0, col0, rank, first, last, stages] = part;

  ladder::StagesState state{stages};
  float acc[BM / 2] = {};
  const int warpgroup = ladder::uniform(threadIdx.x / 128);
  // Of the first stage, as in stream_k.hpp.
  const std::uint64_t b0 = ladder::uniform(wgmma_descriptor<kB>(ring + warpgroup * 64 * BK));
  const std::uint64_t a0 = ladder::uniform(wgmma_descriptor<kA>(ring + BN * BK));
  Mbarrier* const full0 = ladder::uniform(full);
  constexpr unsigned kStageStep = kStage * sizeof(T) / 16;  // as descriptors count
  bool is_there = false;                                    // the next K-tile
  int previous = 0;                                         // the previous K-tile's stage
#pragma unroll(kByTma ? 2 : 1)  // as in stream_k.hpp; other loads take longer
  for (int k_tile = first; k_tile < last; ++k_tile) {
    const unsigned stage = ladder::uniform(state.stage);
    const std::uint64_t b = b0 + stage * kStageStep, a = a0 + stage * kStageStep;
    if (!is_there) mbarrier_wait(full0 + state.stage, state.parity);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / 16; ++k) {
      wgmma<BM, kB, kA, T>(acc, b + k * wgmma_step(kB), a + k * wgmma_step(kA), true);
    }
    wgmma_commit_group();
    const int here = state.stage;
    state.advance();
    is_there = mbarrier_test(full0 + state.stage, state.parity);  // while this one is multiplied
    wgmma_wait_group<1>();                                        // the previous K-tile is complete
    if (k_tile > first && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[previous]);
    previous = here;
  }
  wgmma_wait_group<0>(acc);

  // Accumulators stay in the order of registers: thread t sends to thread t of another block.
  constexpr int kMine = R::kMine, kQuads = kMine / 4;
  float total[kMine];
  if constexpr (kSplit) {
    cluster_wait();
#pragma unroll
    for (int z = 0; z < kReducers; ++z) {
      if (z == rank) continue;
      const int slot = rank - (rank > z);
      const unsigned to =
          cluster_address(inbox + slot * kQuads * R::kConsumerThreads + threadIdx.x, z);
      const unsigned barrier = cluster_address(received, z);
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const float* const s = acc + z * kMine + q * 4;
        cluster_store_async(to + q * R::kConsumerThreads * sizeof(float4),
                            make_float4(s[0], s[1], s[2], s[3]), barrier);
      }
    }
    if (rank >= kReducers) return;
    mbarrier_wait_cluster(received, 0);  // also: no other block accesses this one any more
  }

  // Always from the first block to the last, so that the result is the same in every run.
#pragma unroll
  for (int z = 0; z < kParts; ++z) {
    const float4* const from =
        inbox + (z - (z > rank)) * kQuads * R::kConsumerThreads + threadIdx.x;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float* const s = acc + min(z, kReducers - 1) * kMine + q * 4;
      const float4 sums =
          z == rank ? make_float4(s[0], s[1], s[2], s[3]) : from[q * R::kConsumerThreads];
      float* const t = total + q * 4;
      t[0] = z == 0 ? sums.x : t[0] + sums.x;
      t[1] = z == 0 ? sums.y : t[1] + sums.y;
      t[2] = z == 0 ? sums.z : t[2] + sums.z;
      t[3] = z == 0 ? sums.w : t[3] + sums.w;
    }
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = row0 + rank * R::kRows, col = col0 + warp * 16;
  if constexpr (std::is_same_v<C, float>) {  // from registers: eight lanes have a sector
    store_transposed(c, m, n, row, col, total);
  } else if (C* const epilogue_tiles = reinterpret_cast<C*>(inbox + R::kQuads);
             has_aligned_rows(c, n)) {
    // An epilogue tile is kRows rows of 16 columns of C: two chunks, which are exchanged where r / 4
    // is odd, so that four rows are all banks once, and eight rows of one chunk are, too.
    C* const epilogue_tile = epilogue_tiles + warp * R::kEpilogueTile;
    auto chunk = [&](int r, int i) { return epilogue_tile + r * 16 + (i ^ r / 4 % 2) * 8; };
#pragma unroll
    for (int r = 0; r < R::kRows; r += 16) {  // four matrices: 8 rows of C left and right, 8 more
      const float* const s = total + r / 2;
      stmatrix_transposed(
          chunk(r + lane / 16 * 8 + lane % 8, lane / 8 % 2),
          {pack<C>(s[0], s[1]), pack<C>(s[2], s[3]), pack<C>(s[4], s[5]), pack<C>(s[6], s[7])});
    }
    __syncwarp();
#pragma unroll
    for (int r = lane / 2; r < R::kRows; r += 16) {
      if (row + r >= m || col + lane % 2 * 8 >= n) continue;
      ladder::Vec128<C>::load(chunk(r, lane % 2))
          .store(c + std::int64_t{row + r} * n + col + lane % 2 * 8);
    }
  } else {  // those of the warpgroup together, so that a warp stores rows of 64 columns
    C* const epilogue_tile = epilogue_tiles + warpgroup * 4 * R::kEpilogueTile;
#pragma unroll
    for (int r0 = 0; r0 < R::kRows; r0 += 16) {
      const float* const s = total + r0 / 2;
      const int r = r0 + lane / 16 * 8 + lane % 8, chunk = warp % 4 * 2 + lane / 8 % 2;
      stmatrix_transposed(
          epilogue_tile + r * EpilogueTile::kCols + (chunk ^ r % 8) * 8,
          {pack<C>(s[0], s[1]), pack<C>(s[2], s[3]), pack<C>(s[4], s[5]), pack<C>(s[6], s[7])});
    }
    named_barrier_sync<128>(1 + warpgroup);
#pragma unroll 1
    for (int r = warp % 4; r < R::kRows; r += 4 * kUnalignedRows) {
      store_unaligned(c, m, n, epilogue_tile, r, 4, row, col0 + warpgroup * 64);
    }
  }
}

template <class C, class Loads, int kParts>
__device__ __forceinline__ void multiply_tile(const Loads& loads, C* c, int m, int n,
                                              ladder::Divisor tiles_m, int k_tiles, int stages) {
  using S = typename Loads::S;
  using T = typename Loads::T;
  constexpr Major kA = Loads::kA;
  using R = SharedLayout<S, kA, kParts>;
  constexpr int BM = S::BM, BN = S::BN, kStage = R::kStage, kReducers = R::kReducers;
  constexpr bool kSplit = kParts > 1;
  __shared__ Mbarrier full[R::kMostStages], empty[R::kMostStages], received;
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);
  float4* const inbox = reinterpret_cast<float4*>(ring + stages * kStage);

  // Tiles that are neighbours in time share the columns: B is the operand worth reading once.
  const int tile = blockIdx.x / kParts;
  const int row0 = tiles_m.remainder(tile) * BM, col0 = tiles_m.quotient(tile) * BN;
  const int rank = kSplit ? cluster_rank() : 0;
  const int first = static_cast<int>(std::int64_t{k_tiles} * rank / kParts);
  const int last = static_cast<int>(std::int64_t{k_tiles} * (rank + 1) / kParts);

  // The consumers' warps make the mbarriers, a stage or two each. Where TMA does not load, a producer warp
  // makes them all: its loads take longer, and consumers have no registers left for more.
  constexpr int kProducer = S::kConsumers * 128;
  constexpr bool kByTma = Loads::kArrivals == 1;
  auto make_received = [&] {
    mbarrier_init(&received, 1);
    if (rank < kReducers) mbarrier_arrive_expect_tx(&received, R::kQuads * sizeof(float4));
  };
  auto make_stage = [&](int s) {
    mbarrier_init(&full[s], Loads::kArrivals);
    mbarrier_init(&empty[s], S::kConsumers);
  };
  if constexpr (kByTma) {
    if (const int warp = ladder::uniform(threadIdx.x / 32); warp < S::kConsumers * 4) {
      if (elect_one()) {
        if (kSplit && warp == S::kConsumers * 4 - 1) make_received();
        for (int s = warp; s < stages; s += S::kConsumers * 4) make_stage(s);
        fence_proxy_async();
        if constexpr (kSplit) fence_mbarrier_init();
      }
    } else if (threadIdx.x == kProducer) {
      loads.prefetch();
    }
  } else if (const int s = threadIdx.x - kProducer; s >= 0 && s < 32) {
    if (kSplit && s == 0) make_received();
    if (s < stages) make_stage(s);
    fence_proxy_async();
    if constexpr (kSplit) fence_mbarrier_init();
    __syncwarp();
  }
  if constexpr (kSplit) cluster_arrive_relaxed();  // so that the other blocks know

  // The order of the branches, and consumers that sleep until the first load is asked for: as in stream_k.hpp.
  // Where TMA loads, fill() waits for the mbarriers.
  constexpr int kBlock = kThreads<Loads>;
  const Part<T> part{ring, inbox, full, empty, &received, row0, col0, rank, first, last, stages};
  if constexpr (!kByTma) named_barrier_sync<kBlock>(kReady);
  if (threadIdx.x < kProducer) {
    if constexpr (kByTma) {
      named_barrier_arrive<kBlock>(kReady);
      named_barrier_sync<kBlock>(kFirstLoad);
    }
    multiply_part<C, Loads, kParts>(part, c, m, n);
  } else {
    loads.fill(Ring<T>{ring, full, empty, ladder::StagesState{stages}}, row0, col0, first, last);
    if constexpr (kSplit) cluster_wait();
  }
}

template <class C, class Loads>
__global__ void __launch_bounds__(kThreads<Loads>, Loads::S::kBlocksPerSm)
    multiply(const __grid_constant__ Loads loads, C* c, int m, int n, ladder::Divisor tiles_m,
             int k_tiles, int stages) {
  multiply_tile<C, Loads, 1>(loads, c, m, n, tiles_m, k_tiles, stages);
}
template <class C, class Loads, int kParts>
__global__ void __launch_bounds__(kThreads<Loads>, Loads::S::kBlocksPerSm) __cluster_dims__(kParts)
    multiply_split(const __grid_constant__ Loads loads, C* c, int m, int n, ladder::Divisor tiles_m,
                   int k_tiles, int stages) {
  multiply_tile<C, Loads, kParts>(loads, c, m, n, tiles_m, k_tiles, stages);
}

template <class Loads, int kParts, class C>
auto kernel_of() {
  if constexpr (kParts == 1) {
    return &multiply<C, Loads>;
  } else {
    return &multiply_split<C, Loads, kParts>;
  }
}

/// Of a GPU, with so many stages in a block.
template <class Loads, int kParts, class C>
int blocks_at_once(int stages) {
  using R = SharedLayout<typename Loads::S, Loads::kA, kParts>;
  return ladder::blocks_at_once(kernel_of<Loads, kParts, C>(), kParts, kThreads<Loads>,
                                R::bytes(stages));
}
/// Where all blocks that a launch has share SMs.
template <class Loads, int kParts, class C>
int resident_blocks(int k_tiles) {
  using R = SharedLayout<typename Loads::S, Loads::kA, kParts>;
  return blocks_at_once<Loads, kParts, C>(
      std::min(R::kSharedStages, ladder::ceil_div(k_tiles, kParts)));
}

template <class Loads, int kParts, class C>
void launch_parts(const gemm_tensor::Args<typename Loads::T, C>& g, cudaStream_t stream) {
  using S = typename Loads::S;
  using R = SharedLayout<S, Loads::kA, kParts>;
  const int tiles_m = ladder::ceil_div(g.m, S::BM), tiles = tiles_m * ladder::ceil_div(g.n, S::BN);
  const int k_tiles = ladder::ceil_div(g.k, BK), of_block = ladder::ceil_div(k_tiles, kParts);
  // Few blocks have an SM each, and its shared memory: more loads in flight.
  int stages = std::min(R::kMostStages, of_block);
  if (stages > R::kSharedStages && tiles * kParts > blocks_at_once<Loads, kParts, C>(stages)) {
    stages = R::kSharedStages;
  }
  launch_product(g, kernel_of<Loads, kParts, C>(), 0, tiles * kParts, kThreads<Loads>,
                 R::bytes(stages), stream, Loads(g), g.c, g.m, g.n, ladder::Divisor(tiles_m),
                 k_tiles, stages);
}

constexpr std::array<int, 4> kSplits{1, 2, 4, 8};  // blocks of a cluster

/// The same with `splits` blocks for a tile: one of kSplits.
template <class Loads, class C>
void launch(const gemm_tensor::Args<typename Loads::T, C>& g, int splits, cudaStream_t stream) {
  (splits == 1   ? launch_parts<Loads, 1, C>
   : splits == 2 ? launch_parts<Loads, 2, C>
   : splits == 4 ? launch_parts<Loads, 4, C>
                 : launch_parts<Loads, 8, C>)(g, stream);
}
template <class Loads, class C>
int resident_blocks(int splits, int k_tiles) {
  return (splits == 1   ? resident_blocks<Loads, 1, C>
          : splits == 2 ? resident_blocks<Loads, 2, C>
          : splits == 4 ? resident_blocks<Loads, 4, C>
                        : resident_blocks<Loads, 8, C>)(k_tiles);
}

}  // namespace gemm_pushed_sums
