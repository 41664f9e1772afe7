// v25's kernel, generalised for v20: any operation, tiles of many widths, upright or across, clusters of
// blocks that load for each other as in v14, of which each launch says how many, and C in fp32 too.
#pragma once

#include "device/divisor.hpp"
#include "device/pipeline_state.hpp"
#include "device/ptx/cluster.hpp"
#include "device/ptx/elect.hpp"
#include "device/ptx/griddepcontrol.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "device/uniform.hpp"
#include "store.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace gemm_stream_k {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BK = kDepth;
constexpr int kWave = 132;  // tiles that are about to run at the same time

/// Blocks whose tiles are neighbours: 2^log_along of them along the lines, and 2^log_beside along the width.
/// Those along the lines need the same of Q, those beside each other the same of P, and each loads a part
/// for all that need it.
struct Cluster {
  int log_along = 0, log_beside = 0;

  __host__ __device__ int blocks() const { return 1 << (log_along + log_beside); }
  /// Of the blocks that load into one.
  __device__ int loaders() const { return (1 << log_along) + (1 << log_beside) - 1; }
  __device__ int count(int of_blocks) const { return of_blocks >> (log_along + log_beside); }
  /// Where a block stands in it.
  __device__ int along(int block) const { return block & ((1 << log_along) - 1); }
  __device__ int beside(int block) const { return block >> log_along & ((1 << log_beside) - 1); }

  /// Bits of the blocks beside a block, and of those along the lines, itself among them; of the first.
  unsigned row() const {
    unsigned bits = 0;
    for (int i = 0; i < 1 << log_beside; ++i) bits |= 1u << (i << log_along);
    return bits;
  }
  unsigned column() const { return (1u << (1 << log_along)) - 1; }
};

/// A tile is Lines x Width; or, across, Width x Lines, multiplied as its transpose. Its lines, rows of
/// wgmma, are of the operand P, its width is of Q: A and B, or, across, B and A. In turns, two warpgroups
/// have a tile each: one stores its tile while the other multiplies. Otherwise they share the lines.
template <int Lines, int Width, bool Across, bool InTurns = false>
struct Shape {
  static constexpr bool kInTurns = InTurns;
  static constexpr int kConsumers = InTurns || Lines == 256 ? 2 : Lines / 64;
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static constexpr int kOfTile = InTurns ? 1 : kConsumers;  // warpgroups
  static constexpr int kSlices = Lines / (64 * kOfTile);    // of 64 lines, a warpgroup's
  /// Of a thread, from what the launch gives each.
  static constexpr int kRegisters = kConsumers == 3 ? 128 : 168;
  static constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 24;
  static constexpr int kConsumerRegisters =
      ((kConsumers + 1) * kRegisters - kProducerRegisters) / kConsumers;
  /// Whether fp32 C is stored: of its transpose, a slice a warpgroup; more leave no registers for that.
  static constexpr bool kStoresFloats = kSlices == 1 || !Across;
  /// Whether 16-bit C is stored where TMA can't: nor do 192 accumulators.
  static constexpr bool kStoresAnyRows = kStoresFloats && kSlices * Width <= 256;
  static constexpr int kLines = Lines, kWidth = Width;
  static constexpr bool kAcross = Across;
  static constexpr int BM = Across ? Width : Lines, BN = Across ? Lines : Width;
  /// Of a cluster's tile.
  static int rows(Cluster of) { return BM << (Across ? of.log_beside : of.log_along); }
  static int cols(Cluster of) { return BN << (Across ? of.log_along : of.log_beside); }
  /// Whether the parts that a cluster's blocks load of a K-tile are as the swizzle wants them.
  static constexpr bool takes(Cluster of) {
    return Lines % (8 << of.log_beside) == 0 && Width % (8 << of.log_along) == 0;
  }
  static constexpr int kSumBytes = Lines * Width * static_cast<int>(sizeof(float));  // of a block
  static_assert(!Across || Width % 32 == 0, "kRowsAtOnce");
};

/// C in tiles of clusters, in the order in which they are taken: as in tiles.hpp, but of sizes that the
/// launch knows. A band has as many rows as make a wave about as high as wide, so that those that run at the
/// same time share their operands in the L2; or fewer, so that all bands are as high as each other: a low one
/// is read for as many columns, by waves that share less.
struct Order {
  /// Of that size.
  Order(int m, int n, int height, int width, int cluster)
      : rows(ladder::ceil_div(m, height)),
        cols(ladder::ceil_div(n, width)),
        band(rows_of_band(rows, height, width, cluster)),
        of_band(band * cols),
        by_band(band),
        last_height(rows % band > 0 ? rows % band : band) {}

  int count() const { return rows * cols; }

  /// Of a cluster's tile: x column, y row.
  __device__ int2 at(int tile) const {
    const int first = of_band.quotient(tile) * band, within = tile - first * cols;
    const auto height = ladder::Divisor::select(first + band >= rows, last_height, by_band);
    const int col = height.quotient(within);
    return make_int2(col, first + height.remainder(within));
  }

  static int rows_of_band(int rows, int height, int width, int cluster) {
    int most = 1;
    while (most * most * height < kWave / cluster * width) ++most;
    return ladder::ceil_div(rows, ladder::ceil_div(rows, most));
  }

  int rows, cols, band;
  ladder::Divisor of_band, by_band, last_height;
};

/// Who computes what. The first tiles are divided: their K-tiles, one tile's behind the other's, are
/// dealt out to the clusters in equal runs. The other tiles follow, a cluster each.
struct Division {
  Division(int k_tiles_of_tile, int tile_count, int divided_tiles, int clusters)
      : k_tiles(k_tiles_of_tile),
        tiles(tile_count),
        divided(divided_tiles),
        by_k_tiles(k_tiles),
        by_clusters(clusters) {}

  /// Whether begin() is exact. A product of 64 bits takes registers that accumulators have.
  static bool fits(std::int64_t k_tiles, std::int64_t divided, std::int64_t clusters) {
    return divided * clusters <= (std::int64_t{1} << 31) / std::max<std::int64_t>(k_tiles, 1) - 1;
  }
  /// Where the run of a cluster begins.
  __device__ int begin(int cluster) const {
    return by_clusters.quotient(divided * k_tiles * cluster);
  }
  /// All K-tiles of a cluster, one tile's behind the other's.
  __device__ int k_tiles_of(int cluster, int clusters) const {
    const int whole = by_clusters.quotient(max(tiles - divided - cluster + clusters - 1, 0));
    return begin(cluster + 1) - begin(cluster) + whole * k_tiles;
  }

  int k_tiles, tiles, divided;
  ladder::Divisor by_k_tiles, by_clusters;
};

/// What a cluster has of a tile: K-tiles from first to last.
struct Part {
  int tile, first, last;
};

/// The parts of a cluster. Of its run the last comes first: what it does for others is done before it
/// waits for what others do for it.
class Parts {
 public:
  __device__ Parts(const Division& division, int cluster)
      : division_(division), end_(division.begin(cluster + 1)) {}

  __device__ bool next(Part& part, int cluster, int clusters) {
    const int k_tiles = division_.k_tiles, begin = division_.begin(cluster);
    if (end_ > begin) {
      part.tile = division_.by_k_tiles.quotient(end_ - 1);
      const int first = part.tile * k_tiles;
      part.last = end_ - first;
      end_ = max(begin, first);
      part.first = end_ - first;
      return true;
    }
    const int tile = division_.divided + cluster + (begin - end_) * clusters;
    --end_;  // from here on it counts the whole tiles
    part = {tile, 0, k_tiles};
    return tile < division_.tiles;
  }

 private:
  const Division& division_;
  int end_;  // few registers are left beside the accumulators
};

constexpr int kMostBlocks = 512;  // more than any GPU runs at once, an SM each

/// Of the workspace, for the sums that blocks leave for others.
template <class S>
std::size_t exchange_bytes(int blocks) {
  return static_cast<std::size_t>(blocks) * S::kSumBytes;
}

/// Of state, for a flag of each warp of so many blocks.
template <class S>
std::size_t state_bytes(std::int64_t blocks) {
  const std::int64_t flags = std::min<std::int64_t>(blocks, kMostBlocks) * S::kOfTile * 4;
  return static_cast<std::size_t>(flags) * sizeof(unsigned);
}

template <class S, class C, Major kQ>
struct SharedLayout {
  static constexpr int kStage = BK * (S::kLines + kHeld<kQ, S::kWidth>);  // elements
  static constexpr std::size_t epilogue(int held) {
    return S::kConsumers * 4 * Destination<C>::kBytesPerWarp / 2 * held;
  }
  static constexpr int most_stages(int held) {
    return std::min<int>(16, (227 * 1024 - 2048 - epilogue(held)) / (kStage * 2));
  }
  /// Epilogue tiles of a warp for TMA: where the other one has room for a fourth stage, one.
  static constexpr int kHeldTiles = most_stages(2) < 4 && most_stages(1) == 4 ? 1 : 2;
  static constexpr int kMostStages = most_stages(kHeldTiles);
  static constexpr std::size_t bytes(int stages, int held) {
    return stages * kStage * std::size_t{2} + epilogue(held) + 1024;  // to begin at 1024 n
  }
  static_assert(kMostStages >= 3);
};

/// What a block loads of an operand's K-tiles, into the blocks that need it: one of 2^log_parts parts, of
/// the kSize rows of M or N; where those are contiguous, of the depth.
template <Major kMajor, int kSize>
class Share {
 public:
  __device__ Share(int log_parts, int part, unsigned blocks)
      : first_(part * ((kAlongK ? kSize : BK) >> log_parts)),
        blocks_(static_cast<std::uint16_t>(blocks)),
        is_whole_(log_parts == 0) {}

  template <class T>
  __device__ __forceinline__ void load(T* to, const CUtensorMap* map, int mn, int k,
                                       Mbarrier* barrier) const {
    (kAlongK ? mn : k) += first_;
    to += first_ * (kAlongK ? BK : 64);
    if (is_whole_) {
      load_k_tile<kMajor, kHeld<kMajor, kSize>>(to, map, mn, k, barrier);
    } else {
      load_k_tile_multicast<kMajor, kHeld<kMajor, kSize>>(to, map, mn, k, barrier, blocks_);
    }
  }

 private:
  static constexpr bool kAlongK = kMajor == Major::k;
  int first_;
  std::uint16_t blocks_;
  bool is_whole_;
};

constexpr int kRowsAtOnce = 32;  // of C, that a warpgroup stages of a tile across

/// 64 columns of C from the accumulators of its transpose; a warpgroup's.
template <class T, int kAccumulators>
__device__ __forceinline__ void store_across(const CUtensorMap& map, T* epilogue_tiles, int row,
                                             int column, int barrier,
                                             const float (&acc)[kAccumulators]) {
  constexpr int kTiles = kAccumulators * 2 / kRowsAtOnce;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    T* const epilogue_tile = epilogue_tiles + j % 2 * (kRowsAtOnce * 64);
    if (threadIdx.x % 128 == 0) wait_for_epilogue_tile<kTiles>(j);
    named_barrier_sync<128>(barrier);
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; i += 16) {
      // Four matrices: 8 rows of C left and right, 8 more.
      const float* const s = acc + (j * kRowsAtOnce + i) / 2;
      const int r = i + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
      stmatrix_transposed(
          epilogue_tile + r * 64 + (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    fence_proxy_async();
    named_barrier_sync<128>(barrier);
    if (threadIdx.x % 128 == 0) {
      tensor_store(&map, column, row + j * kRowsAtOnce, epilogue_tile);
      bulk_commit_group();
    }
  }
}

/// The same where rows of C begin anywhere.
template <class T, int kAccumulators>
__device__ __forceinline__ void store_across_rows(T* c, int m, int n, T* epilogue_tile, int row,
                                                  int column, int barrier,
                                                  const float (&acc)[kAccumulators]) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kAccumulators * 2; j += kRowsAtOnce) {
    named_barrier_sync<128>(barrier);
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; i += 16) {
      // Four matrices: 8 rows of C left and right, 8 more.
      const float* const s = acc + (j + i) / 2;
      const int r = i + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
      stmatrix_transposed(
          epilogue_tile + r * 64 + (chunk ^ r % 8) * 8,
          {pack<T>(s[0], s[1]), pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7])});
    }
    named_barrier_sync<128>(barrier);
#pragma unroll 1
    for (int r = warp; r < kRowsAtOnce; r += 4 * kUnalignedRows) {
      store_unaligned(c, m, n, epilogue_tile, r, 4, row + j, column);
    }
  }
}

/// What a kernel is given; the maps are those of P, Q, and C.
template <class C>
struct Task {
  CUtensorMap p, q, c;
  C* to;
  bool by_tma;  // is 16-bit C stored
  int m, n, stages;
  ladder::Divisor by_stages;
  Cluster cluster;
  unsigned row, column;  // the cluster's
  Division division;
  Order order;
  float4* sums;  // [block][warpgroup][accumulators / 4][128]
  // [block][warpgroup][warp]: whether the warp's sums are there, written by who leaves them, reset by who
  // adds them
  unsigned* arrived;
};

/// The first line, and the first of the width, of this block's tile in a cluster's.
template <class S, class C>
__device__ int line0(const Task<C>& task, int2 at) {
  const int cluster = S::kAcross ? at.x : at.y, along = task.cluster.along(blockIdx.x);
  return ((cluster << task.cluster.log_along) + along) * S::kLines;
}
template <class S, class C>
__device__ int width0(const Task<C>& task, int2 at) {
  const int cluster = S::kAcross ? at.y : at.x, beside = task.cluster.beside(blockIdx.x);
  return ((cluster << task.cluster.log_beside) + beside) * S::kWidth;
}

constexpr int kIssuers = 2;  // of loads, which take turns: a warp each
constexpr int kTurns = 3;    // the first of two named barriers; epilogues have 1 and 2

/// By the producer warpgroup: half of its warps load, the other half make the mbarriers before. A small product
/// is over soon after it has begun, so instructions before the first load count, and who else runs meanwhile.
template <class T, class C, class S, Major kP, Major kQ>
__device__ __forceinline__ void load_tiles(const Task<C>& task, T* ring, Mbarrier* full,
                                           Mbarrier* empty) {
  constexpr int kStage = SharedLayout<S, C, kQ>::kStage, kMakers = 4 - kIssuers;
  const Cluster cluster = task.cluster;
  const int issuer = ladder::uniform(threadIdx.x / 32) % 4;  // the last ones are makers
  if (issuer >= kIssuers && elect_one()) {
    prefetch_map(issuer == kIssuers ? &task.p : &task.q);
#pragma unroll 1  // or there are more instructions before those of the first load
    for (int s = issuer - kIssuers; s < task.stages; s += kMakers) {
      mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], S::kOfTile * cluster.loaders());
    }
    fence_proxy_async();
    fence_mbarrier_init();
  }
  __syncwarp();
  if (cluster.blocks() > 1) cluster_arrive_relaxed();
  if constexpr (S::kConsumers > 1) setmaxnreg_dec<S::kProducerRegisters>();
  if (issuer >= kIssuers) {
    named_barrier_arrive<128>(kReady);
    return;
  }

  const int this_cluster = cluster.count(blockIdx.x), clusters = cluster.count(gridDim.x);
  const int along = cluster.along(blockIdx.x), beside = cluster.beside(blockIdx.x);
  Parts parts(task.division, this_cluster);
  Part part;
  int p = 0, q = 0;  // where the part's tile begins in P and in Q
  auto next = [&] {
    if (!parts.next(part, this_cluster, clusters)) return false;
    const int2 at = task.order.at(part.tile);
    p = line0<S>(task, at), q = width0<S>(task, at);
    return true;
  };
  bool has_part = next();  // found before it waits for others
  const Share<kP, S::kLines> of_p(cluster.log_beside, beside, task.row << along);
  const Share<kQ, S::kWidth> of_q(cluster.log_along, along,
                                  task.column << (beside << cluster.log_along));
  ladder::StagesState state{task.stages};
  auto load = [&](int k_tile) {
    T* const to = ring + state.stage * kStage;
    Mbarrier* const barrier = &full[state.stage];
    mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
    of_p.load(to, &task.p, p, k_tile * BK, barrier);
    of_q.load(to + S::kLines * BK, &task.q, q, k_tile * BK, barrier);
  };

  named_barrier_sync<128>(kReady);
  if (cluster.blocks() > 1) cluster_wait();  // so are the mbarriers of the others
  if (issuer == 0 && has_part && elect_one()) {
    griddepcontrol_wait();  // for copies of A and B
    load(part.first);
  }
  __syncwarp();
  named_barrier_arrive<(S::kConsumers * 4 + kIssuers) * 32>(kFirstLoad);
  if (!elect_one()) return;
  griddepcontrol_wait();
  int loaded = 0;  // K-tiles
  for (; has_part; has_part = next()) {
    for (int k_tile = part.first; k_tile < part.last; ++k_tile, ++loaded, state.advance()) {
      if (loaded == 0 || loaded % kIssuers != issuer) continue;
      // Free in all blocks that it loads into, as in the first pass all stages are.
      if (loaded >= task.stages) mbarrier_wait(&empty[state.stage], state.parity ^ 1);
      load(k_tile);
    }
  }
}

/// By the consumer warpgroups.
template <class T, class C, class S, Major kP, Major kQ>
__device__ __forceinline__ void multiply_tiles(const Task<C>& task, T* ring, Mbarrier* full,
                                               Mbarrier* empty) {
  using L = SharedLayout<S, C, kQ>;
  constexpr int kStage = L::kStage, kLines = S::kLines, kWidth = S::kWidth;
  constexpr int kConsumers = S::kConsumers, kSlices = S::kSlices;
  // K-tiles of an iteration. wgmma reads its descriptors from uniform registers, which the next K-tile's must
  // not overwrite before the last wgmma has begun: two K-tiles have registers of their own. Where the products
  // of a K-tile take longer than that, there is nothing to gain.
  [[maybe_unused]] constexpr int kUnrolled =
      S::kLines == 64 || (kSlices == 1 && kWidth <= 128) ? 2 : 1;

  // Functions of blockIdx.x rather than registers.
  auto this_cluster = [&] { return task.cluster.count(blockIdx.x); };
  auto clusters = [&] { return task.cluster.count(gridDim.x); };
  auto along = [&] { return task.cluster.along(blockIdx.x); };
  auto beside = [&] { return task.cluster.beside(blockIdx.x); };

  // Asleep until the first load is asked for: what it needs is computed in the uniform datapath, which the
  // warps of a quarter of an SM share, and which one that waits for its cluster does not leave to others.
  if (task.cluster.blocks() > 1) cluster_arrive_relaxed();
  named_barrier_sync<(kConsumers * 4 + kIssuers) * 32>(kFirstLoad);
  if (task.cluster.blocks() > 1) cluster_wait();  // at once
  if constexpr (kConsumers > 1) setmaxnreg_inc<S::kConsumerRegisters>();

  ladder::StagesState state{task.stages};
  Parts parts(task.division, this_cluster());
  Part part;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warpgroup = ladder::uniform(threadIdx.x / 128);
  const int of_tile = S::kInTurns ? 0 : warpgroup;
  // Of the first stage. Uniform, so that they are not computed again for each K-tile, which would take
  // longer than to multiply a small one.
  const std::uint64_t p0 =
      ladder::uniform(wgmma_descriptor<kP>(ring + of_tile * kSlices * 64 * BK));
  const std::uint64_t q0 = ladder::uniform(wgmma_descriptor<kQ>(ring + kLines * BK));
  Mbarrier* const full0 = ladder::uniform(full);
  // Releases a stage: one thread for each block that loads into it arrives at that block's barrier. Not
  // after the last load into it: so a block waits for all that others do in its memory, and may end.
  int loads_after = task.division.k_tiles_of(this_cluster(), clusters()) - task.stages;
  const bool releases = static_cast<int>(threadIdx.x % 128) < task.cluster.loaders();
  const unsigned empty0 = [&] {
    const int i = threadIdx.x % 128, row = beside(), other = i - (1 << task.cluster.log_along);
    const int loader = other < 0 ? (row << task.cluster.log_along) + i
                                 : ((other + (other >= row)) << task.cluster.log_along) + along();
    return releases ? cluster_address(empty, loader) : 0;
  }();
  auto leave = [&](int stage) {
    if (--loads_after < 0) return;
    if (releases) mbarrier_arrive_remote(empty0 + stage * sizeof(Mbarrier));
  };
  // As descriptors count.
  constexpr unsigned kStageStep = kStage * sizeof(T) / 16, kSlice = 64 * BK * sizeof(T) / 16;
  bool is_there = false;  // the next K-tile
  C* const epilogue_tiles = reinterpret_cast<C*>(ring + task.stages * kStage);
  int turn = 0;  // whose part it is
  while (parts.next(part, this_cluster(), clusters())) {
    if constexpr (S::kInTurns) {
      if (turn++ % 2 != warpgroup) {
        const int others = part.last - part.first;
        state.advance(others, task.by_stages);
        loads_after -= others;
        continue;
      }
      // Until the other one has waited for all K-tiles of its part: a stage further back than the last pass
      // would have the parity of this one.
      if (turn > 1) named_barrier_sync<256>(kTurns + warpgroup);
      is_there = false;
    }
    float acc[kSlices][kWidth / 2];
    const bool is_first = part.first == 0, is_last = part.last == task.division.k_tiles;
    bool continues = false;  // behind the first K-tile
    int previous = 0;        // the previous K-tile's stage
#pragma unroll kUnrolled
    for (int left = part.last - part.first; left > 0; --left) {
      const unsigned stage = ladder::uniform(state.stage);
      const std::uint64_t p = p0 + stage * kStageStep, q = q0 + stage * kStageStep;
      if (!is_there) mbarrier_wait(full0 + state.stage, state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
#pragma unroll
        for (int i = 0; i < kSlices; ++i) {
          wgmma<kWidth, kP, kQ, T>(acc[i], p + i * kSlice + k * wgmma_step(kP),
                                   q + k * wgmma_step(kQ), continues || k > 0);
        }
      }
      wgmma_commit_group();
      const int here = state.stage;  // not `stage`, which would not be uniform if it lived on
      state.advance();
      is_there = mbarrier_test(full0 + state.stage, state.parity);  // while this one is multiplied
      wgmma_wait_group<1>();  // the previous K-tile is complete
      if (continues) leave(previous);
      previous = here;
      continues = true;
    }
    if constexpr (S::kInTurns) named_barrier_arrive<256>(kTurns + 1 - warpgroup);
    if constexpr (kSlices == 1) {
      wgmma_wait_group<0>(acc[0]);
    } else {
      wgmma_wait_group<0>(acc[0], acc[1]);
    }
    leave(previous);

    constexpr int kQuads = kWidth / 8;  // of a slice
    auto sums_of = [&](int block) {
      return task.sums + (std::int64_t{block} * S::kOfTile + of_tile) * kSlices * kQuads * 128 +
             threadIdx.x % 128;
    };
    auto arrived_of = [&](int block) {
      return &task.arrived[(block * S::kOfTile + of_tile) * 4 + warp % 4];
    };
    if (!is_last) {  // who has the last K-tile adds
      float4* const to = sums_of(blockIdx.x);
#pragma unroll
      for (int i = 0; i < kSlices * kQuads; ++i) {
        const float* const s = acc[i / kQuads] + i % kQuads * 4;
        to[i * 128] = make_float4(s[0], s[1], s[2], s[3]);
      }
      __syncwarp();
      if (lane == 0) store_release<Scope::gpu>(arrived_of(blockIdx.x), 1);
      continue;
    }
    if (!is_first) {  // always from the last part to the first: the same sum in every run
      int other = this_cluster();
      int block = blockIdx.x;
      do {
        --other;
        block -= task.cluster.blocks();
        if (lane == 0) {
          while (load_acquire<Scope::gpu>(arrived_of(block)) == 0) {
          }
          *arrived_of(block) = 0;
        }
        __syncwarp();
        const float4* const from = sums_of(block);
#pragma unroll
        for (int i = 0; i < kSlices * kQuads; ++i) {
          const float4 sum = from[i * 128];
          float* const s = acc[i / kQuads] + i % kQuads * 4;
          s[0] += sum.x;
          s[1] += sum.y;
          s[2] += sum.z;
          s[3] += sum.w;
        }
      } while (task.division.begin(other) > part.tile * task.division.k_tiles);
    }

    const int2 at = task.order.at(part.tile);
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const int slice = (of_tile * kSlices + i) * 64;
      if constexpr (S::kAcross) {
        const int row = width0<S>(task, at), column = line0<S>(task, at) + slice;
        if constexpr (std::is_same_v<C, float>) {
          store_transposed(task.to, task.m, task.n, row, column + warp % 4 * 16, acc[i]);
        } else {
          C* const tiles = epilogue_tiles + warpgroup * 4 * L::kHeldTiles * EpilogueTile::kElements;
          if (!S::kStoresAnyRows || task.by_tma) {
            store_across(task.c, tiles, row, column, 1 + warpgroup, acc[i]);
          } else {
            store_across_rows(task.to, task.m, task.n, tiles, row, column, 1 + warpgroup, acc[i]);
          }
        }
      } else {
        const int row = line0<S>(task, at) + slice + warp % 4 * 16, column = width0<S>(task, at);
        if constexpr (std::is_same_v<C, float>) {
          store_pairs(task.to, task.m, task.n, row, column, acc[i]);
        } else {
          constexpr int kTile = EpilogueTile::kElements;
          if (!S::kStoresAnyRows || task.by_tma) {
            store_epilogue_tiles<L::kHeldTiles>(
                task.c, epilogue_tiles + warp * L::kHeldTiles * kTile, row, column, acc[i]);
          } else {
            store_rows(task.to, task.m, task.n, epilogue_tiles + warp * 2 * kTile, row, column,
                       acc[i]);
          }
        }
      }
    }
  }
  if (lane == 0) bulk_wait_group_read<0>();
}

template <class T, class C, class S, Major kP, Major kQ>
__global__ void __launch_bounds__(S::kThreads, 1) multiply(const __grid_constant__ Task<C> task) {
  using L = SharedLayout<S, C, kQ>;
  __shared__ Mbarrier full[L::kMostStages], empty[L::kMostStages];
  T* const shared = ladder::dynamic_shared<T>();
  T* const ring = shared + (-shared_address(shared) & 1023) / sizeof(T);
  // In this order: the compiler puts the code that loads right behind the kernel's entry. At the end, behind
  // 30 KiB of products and epilogues, no cache would have it when it is jumped to.
  if (threadIdx.x < S::kConsumers * 128) {
    multiply_tiles<T, C, S, kP, kQ>(task, ring, full, empty);
  } else {
    load_tiles<T, C, S, kP, kQ>(task, ring, full, empty);
  }
}

template <class Op, class S, class T, class C>
auto kernel_of() {
  constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  constexpr Major kP = S::kAcross ? kB : kA, kQ = S::kAcross ? kA : kB;
  return &multiply<T, C, S, kP, kQ>;
}

template <class Op, class S, class C>
using SharedLayoutOf = SharedLayout<S, C, S::kAcross ? kMajorA<Op> : kMajorB<Op>>;

/// How many clusters of so many blocks run at the same time, of kMostBlocks blocks at most, so that the size
/// of the state doesn't depend on the GPU. Of at most 8 blocks.
template <class Op, class S, class T, class C>
int clusters_at_once(int blocks) {
  using L = SharedLayoutOf<Op, S, C>;
  const int at_once = ladder::blocks_at_once(kernel_of<Op, S, T, C>(), blocks, S::kThreads,
                                             L::bytes(L::kMostStages, L::kHeldTiles));
  return std::max(1, std::min(at_once, kMostBlocks) / blocks);
}

/// Clusters that are at work, and how many tiles they divide among them; the other tiles are whole.
struct Work {
  Cluster cluster;
  int clusters, divided;
};

/// g.c = A * B. The workspace has exchange_bytes() of the blocks and the state state_bytes(), if tiles are
/// divided.
template <class Op, class S, class T, class C>
void launch(const gemm_tensor::Args<T, C>& g, Work work, void* state, cudaStream_t stream) {
  constexpr Major kA = kMajorA<Op>, kB = kMajorB<Op>;
  using L = SharedLayoutOf<Op, S, C>;
  auto map_a = [&](int rows, int log_parts) {
    return operand_map(kA, g.a, g.m, g.k, rows >> log_parts, BK >> log_parts, g.pitch_a);
  };
  auto map_b = [&](int rows, int log_parts) {
    return operand_map(kB, g.b, g.n, g.k, rows >> log_parts, BK >> log_parts, g.pitch_b);
  };
  const Cluster cluster = work.cluster;
  const int along = cluster.log_along, beside = cluster.log_beside;
  const CUtensorMap p = S::kAcross ? map_b(S::kLines, beside) : map_a(S::kLines, beside);
  const CUtensorMap q = S::kAcross ? map_a(S::kWidth, along) : map_b(S::kWidth, along);
  const Order order(g.m, g.n, S::rows(cluster), S::cols(cluster), cluster.blocks());
  const Division division(ladder::ceil_div(g.k, BK), order.count(), work.divided, work.clusters);
  const auto run = ladder::ceil_div(std::int64_t{work.divided} * division.k_tiles, work.clusters);
  const std::int64_t most =
      run + std::int64_t{ladder::ceil_div(division.tiles - work.divided, work.clusters)} *
                division.k_tiles;
  bool by_tma = false;
  if constexpr (!std::is_same_v<C, float>) by_tma = has_aligned_rows(g.c, g.n);
  const int held = by_tma ? L::kHeldTiles : 2;
  const int stages = static_cast<int>(std::min<std::int64_t>(L::most_stages(held), most));
  const int blocks = work.clusters * cluster.blocks();
  Task<C> task{.p = p,
               .q = q,
               .c = {},
               .to = g.c,
               .by_tma = by_tma,
               .m = g.m,
               .n = g.n,
               .stages = stages,
               .by_stages = ladder::Divisor(stages),
               .cluster = cluster,
               .row = cluster.row(),
               .column = cluster.column(),
               .division = division,
               .order = order,
               .sums = static_cast<float4*>(g.workspace),
               .arrived = static_cast<unsigned*>(state)};
  if constexpr (!std::is_same_v<C, float>) {
    if (by_tma) {
      task.c = output_map(g.c, g.m, g.n, S::kAcross ? kRowsAtOnce : EpilogueTile::kRows);
    }
  }
  launch_product(g, kernel_of<Op, S, T, C>(), cluster.blocks(), blocks, S::kThreads,
                 L::bytes(stages, held), stream, task);
}

}  // namespace gemm_stream_k
