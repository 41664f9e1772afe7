// Idea      stream-K: what the whole waves leave over, and one wave more, is not dealt out by tiles but
//           by K-tiles, in equal runs. A run ends within a tile; who has the last K-tile of a tile adds
//           what the others have of it, from the L2
// Vs v13    no wave is partly empty: where 133 tiles took two waves, they take one and 1/132. So do few
//           tiles, which in v15 take a cluster each, whose size divides neither the SMs nor the K-tiles.
//           For that sums go through global memory, 128 KiB for a tile that is divided in two
// Bound by  power, as v13; with few K-tiles what it takes to add up
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes; relies on ascending dispatch
// Tile      as v13: 128 x 256 x 64, two warpgroups of 64 x 256, 4 stages of 48 KiB and 4 KiB of epilogue
//           tiles per warp, one block per SM. v20 has this kernel for other operations and shapes
//           (stream_k.hpp)
#include "device/ptx/memory_order.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "store.hpp"
#include "tiles.hpp"

#include <algorithm>

namespace {

using namespace gemm_k_tiles;
using namespace ladder::ptx;

constexpr int BM = 128, BN = 256, BK = kDepth;
constexpr int kStages = 4, kConsumers = BM / 64, kThreads = (kConsumers + 1) * 128;
constexpr int kStage = BK * (BM + BN);  // elements
constexpr int kQuads = BN / 8;          // float4s of a thread's accumulators
using TileOrder = Tiles<BM, BN, 16>;

/// The first tiles are divided: their K-tiles, one tile's behind the other's, are dealt out to the blocks
/// in equal runs. The other tiles follow, a block each.
struct Division {
  int k_tiles, tiles, divided;

  /// In 32 bits: a division of 64 takes registers that accumulators have.
  __device__ int begin(int block) const {
    return static_cast<int>(unsigned(divided) * unsigned(k_tiles) * unsigned(block) / gridDim.x);
  }
};

/// What a block has of a tile: K-tiles from first to last.
struct Part {
  int tile, first, last;
};

/// The parts of a block. Of its run the last comes first: what it does for others is done before it
/// waits for what others do for it.
class Parts {
 public:
  __device__ explicit Parts(const Division& division)
      : division_(division), end_(division.begin(blockIdx.x + 1)) {}

  __device__ bool next(Part& part) {
    const int k_tiles = division_.k_tiles, begin = division_.begin(blockIdx.x);
    if (end_ > begin) {
      part.tile = (end_ - 1) / k_tiles;
      const int first = part.tile * k_tiles;
      part.last = end_ - first;
      end_ = max(begin, first);
      part.first = end_ - first;
      return true;
    }
    const int tile = division_.divided + blockIdx.x + (begin - end_) * gridDim.x;
    --end_;  // from here on it counts the whole tiles
    part = {tile, 0, k_tiles};
    return tile < division_.tiles;
  }

 private:
  const Division& division_;
  int end_;  // few registers are left beside the accumulators
};

/// Where blocks leave sums for others, in the workspace: [block][warpgroup][accumulators / 4][128]; and
/// state, whether the sums of a warp are there, written by who leaves them, reset by who adds them:
/// [block][warp].
struct Exchange {
  float4* sums;
  unsigned* arrived;

  __device__ float4* sums_of(int block) const {
    const int warpgroup = threadIdx.x / 128;
    return sums + (block * kConsumers + warpgroup) * kQuads * 128 + threadIdx.x % 128;
  }
  __device__ unsigned* arrived_of(int block) const {
    return &arrived[block * kConsumers * 4 + threadIdx.x / 32];
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ CUtensorMap map_c, Division division, TileOrder tiles,
             Exchange exchange) {
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
  Parts parts(division);
  Part part;
  if (threadIdx.x >= kConsumers * 128) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128) return;
    while (parts.next(part)) {
      const int2 corner = tiles.at(part.tile);
      for (int k_tile = part.first; k_tile < part.last; ++k_tile, state.advance()) {
        T* const to = ring + state.stage * kStage;
        Mbarrier* const barrier = &full[state.stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&empty[state.stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(barrier, kStage * sizeof(T));
        load_k_tile<Major::k, BM>(to, &map_a, corner.y, k_tile * BK, barrier);
        load_k_tile<Major::k, BN>(to + BM * BK, &map_b, corner.x, k_tile * BK, barrier);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool first_thread = threadIdx.x % 128 == 0;  // of the warpgroup
  T* const epilogue_tiles = ring + kStages * kStage + warp * 2 * EpilogueTile::kElements;
  while (parts.next(part)) {
    float acc[BN / 2];
    const bool is_first = part.first == 0, is_last = part.last == division.k_tiles;
    int previous = -1;  // the previous K-tile's stage
    for (int left = part.last - part.first; left > 0; --left, state.advance()) {
      const T* const from = ring + state.stage * kStage;
      const auto a = wgmma_descriptor<Major::k>(from + warpgroup * 64 * BK);
      const auto b = wgmma_descriptor<Major::k>(from + BM * BK);
      mbarrier_wait(&full[state.stage], state.parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / 16; ++k) {
        wgmma<BN, Major::k, Major::k, T>(acc, a + k * wgmma_step(Major::k),
                                         b + k * wgmma_step(Major::k), previous >= 0 || k > 0);
      }
      wgmma_commit_group();
      wgmma_wait_group<1>();  // the previous K-tile is complete, this one in flight
      if (previous >= 0 && first_thread) mbarrier_arrive(&empty[previous]);
      previous = state.stage;
    }
    wgmma_wait_group<0>(acc);
    if (first_thread) mbarrier_arrive(&empty[previous]);

    if (!is_last) {  // who has the last K-tile adds
      float4* const to = exchange.sums_of(blockIdx.x);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        to[i * 128] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
      }
      __syncwarp();
      if (lane == 0) store_release<Scope::gpu>(exchange.arrived_of(blockIdx.x), 1);
      continue;
    }
    if (!is_first) {  // always from the last part to the first: the same sum in every run
      int block = blockIdx.x;
      do {
        --block;
        if (lane == 0) {
          while (load_acquire<Scope::gpu>(exchange.arrived_of(block)) == 0) {
          }
          *exchange.arrived_of(block) = 0;
        }
        __syncwarp();
        const float4* const from = exchange.sums_of(block);
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          const float4 sum = from[i * 128];
          acc[4 * i] += sum.x;
          acc[4 * i + 1] += sum.y;
          acc[4 * i + 2] += sum.z;
          acc[4 * i + 3] += sum.w;
        }
      } while (division.begin(block) > part.tile * division.k_tiles);
    }

    const int2 corner = tiles.at(part.tile);
    store_epilogue_tiles(map_c, epilogue_tiles, corner.y + warp * EpilogueTile::kRows, corner.x,
                         acc);
  }
  if (lane == 0) bulk_wait_group_read<0>();
}

constexpr std::size_t kSumBytes = sizeof(float) * BM * BN;  // of a block
constexpr std::size_t kShared =
    (kStages * kStage + kConsumers * 4 * 2 * EpilogueTile::kElements) * sizeof(half) +
    1024;  // to begin at 1024 n

constexpr int kMostBlocks = 512;  // more than any GPU has SMs

/// The blocks, one for each SM unless there are fewer K-tiles than two for each, and what they divide.
struct Work {
  TileOrder tiles;
  Division division;
  int most_blocks, blocks;  // on any GPU, on this one

  Work(int m, int n, int k) : tiles(m, n) {
    const int count = tiles.count(), k_tiles = ladder::ceil_div(k, BK);
    most_blocks = static_cast<int>(
        std::clamp<std::int64_t>(std::int64_t{count} * k_tiles / 2, 1, kMostBlocks));
    blocks = std::min(ladder::sm_count(), most_blocks);
    const int rest = count % blocks;  // in a last wave
    const int divided = rest == 0 ? 0 : std::min(count, rest + blocks);
    const bool fits =
        std::int64_t{divided} * blocks < (std::int64_t{1} << 32) / std::max(k_tiles, 1);
    division = {k_tiles, count, fits ? divided : 0};
  }
};

template <class Op>
struct StreamK {
  static constexpr ladder::Version version{"stream-K: equal runs of K-tiles for all blocks"};
  // A tile for two blocks; a wave and a part of one. A tile for three blocks and more
  static constexpr gemm_tensor::Problem test_problems[] = {{120, 200, 712}, {600, 200, 328}};
  static constexpr gemm_tensor::Problem many_sms_test_problems[] = {{120, 200, 712}};

  template <class T>
  static std::size_t workspace(const gemm_tensor::Args<T>& g) {
    const Work work(g.m, g.n, g.k);
    return work.division.divided == 0 ? 0 : work.blocks * kSumBytes;
  }
  template <class T>
  static std::size_t state(const gemm_tensor::Args<T>& g) {
    const Work work(g.m, g.n, g.k);
    const bool may_divide = work.most_blocks > 1 && work.division.k_tiles > 1;
    return may_divide ? work.most_blocks * kConsumers * 4 * sizeof(unsigned) : 0;
  }
  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, void* state, cudaStream_t stream) {
    if (launch_empty(g, stream)) return;
    const CUtensorMap a = operand_map(Major::k, g.a, g.m, g.k, BM);
    const CUtensorMap b = operand_map(Major::k, g.b, g.n, g.k, BN);
    const CUtensorMap c = output_map(g.c, g.m, g.n, EpilogueTile::kRows);
    const Work work(g.m, g.n, g.k);
    const Exchange exchange{static_cast<float4*>(g.workspace), static_cast<unsigned*>(state)};
    ladder::launch(multiply<T>, work.blocks, kThreads, kShared, stream, a, b, c, work.division,
                   work.tiles, exchange);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<Op>(p);
  }
};

const ladder::Register<StreamK<gemm_tensor_nt>, gemm_tensor_nt, ladder::bfloat16> nt;

}  // namespace
