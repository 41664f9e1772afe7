// Idea      the tiles of all sequences and heads, one behind the other, are cut into equal parts, one for
//           each block of a grid that fills the GPU once. A block goes through its part whatever heads
//           and sequences it is of; a second kernel adds up what was cut
// Vs v54    sequences of any lengths end at the same time: no block is short, none is for a part that
//           does not exist, and the copies of the next head's tiles go on while one is finished. What
//           lies in one block's part as a whole is written at once; only what was cut, two pieces of a
//           block at most, goes through the workspace: 4.4 MB for 264 blocks of head size 128, whatever
//           the batch
// Bound by  memory
// Limits    compute capability 8.0; more than 16 rows are several blocks' work, which each read all
//           keys; 97 KiB of shared memory for head size 128: a GPU on whose SMs one block fits instead
//           of two has two waves. Where a sequence is cut depends on the lengths of all sequences of
//           the batch and on the number of SMs, and so do the last bits of its result. They are the
//           same in each run
// Tile      16 rows by 64 keys, 4 warps of 16 keys, 3 stages
#include "device/sm_count.hpp"
#include "group_rows.hpp"
#include "head.hpp"
#include "limits.hpp"

namespace {

using namespace ladder::ptx;

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32, BM = 16, WN = 16, BN = kWarps * WN, kStages = 3;
constexpr int kBlocksPerSm = 2;

template <class T, int D>
struct Shared {
  union Stage {
    struct {
      SwizzledTile<T, WN, D> k, v;
    } tiles;
    RowSums<D> sums;  // of the same size
  };
  Stage stages[kWarps][kStages];
  float2 max_and_sum[kWarps][BM];
};

__device__ int tiles_of(int keys) { return ladder::ceil_div(keys, BN); }

/// Sixteen rows of queries that see a head's keys are a run; a sequence has so many.
template <class T>
__host__ __device__ int runs_of_head(const Args<T>& a) {
  return ladder::ceil_div(a.heads / a.kv_heads * a.queries, BM);
}

/// The tiles of one run of each sequence before `sequence`.
/// A warp's: the lanes add up.
template <class T>
__device__ std::int64_t tiles_before(const Args<T>& a, int sequence, int lane) {
  std::int64_t tiles = 0;
  for (int b = lane; b < sequence; b += 32) tiles += tiles_of(a.keys_used[b]);
  for (int i = 16; i > 0; i /= 2) tiles += __shfl_xor_sync(0xffffffff, tiles, i);
  return tiles;
}

/// A tile: of a sequence, of one of its runs.
struct Place {
  int sequence, keys, run, tile;

  __device__ bool is_last_of_run() const { return tile + 1 == tiles_of(keys); }

  /// The tile of a number; runs of a sequence lie one behind the other. A warp's.
  template <class T>
  __device__ Place(const Args<T>& a, int runs, std::int64_t number, int lane) {
    std::int64_t before = 0;  // tiles of the sequences before
    for (int first = 0;; first += 32) {
      const int own = first + lane < a.batch ? a.keys_used[first + lane] : 0;
      std::int64_t up_to = tiles_of(own);
      for (int i = 1; i < 32; i *= 2) {
        const std::int64_t other = __shfl_up_sync(0xffffffff, up_to, i);
        if (lane >= i) up_to += other;
      }
      const unsigned behind = __ballot_sync(0xffffffff, (before + up_to) * runs > number);
      if (behind != 0) {
        const int found = __ffs(static_cast<int>(behind)) - 1;
        sequence = first + found;
        keys = __shfl_sync(0xffffffff, own, found);
        const int tiles = tiles_of(keys);
        const std::int64_t up_to_it = before + __shfl_sync(0xffffffff, up_to, found);
        const std::int64_t own_number = number - (up_to_it - tiles) * runs;
        run = static_cast<int>(own_number / tiles);
        tile = static_cast<int>(own_number % tiles);
        return;
      }
      before += __shfl_sync(0xffffffff, up_to, 31);
    }
  }

  template <class T>
  __device__ void advance(const Args<T>& a, int runs) {
    if (++tile < tiles_of(keys)) return;
    tile = 0;
    if (++run < runs) return;
    run = 0;
    do {
      if (++sequence == a.batch) return;
      keys = a.keys_used[sequence];
    } while (keys == 0);
  }
};

/// What was cut, in the workspace: of each block the run that it goes on with, and the one that it
/// begins and leaves to the next.
template <class T, int D>
struct Pieces {
  float* sums;          // [block][2][BM][D]
  float2* max_and_sum;  // [block][2][BM]

  static std::size_t bytes(int blocks) {
    return static_cast<std::size_t>(blocks) * 2 * BM * (D * sizeof(float) + sizeof(float2));
  }
  __device__ Pieces(const Args<T>& a, int blocks)
      : sums(static_cast<float*>(a.workspace)),
        max_and_sum(reinterpret_cast<float2*>(sums + std::int64_t{blocks} * 2 * BM * D)) {}
  __device__ static int row(int block, bool begins, int row) {
    return (block * 2 + int{begins}) * BM + row;
  }
};

/// How many tiles a block has.
__device__ std::int64_t part_of(std::int64_t tiles, int blocks) {
  return (tiles + blocks - 1) / blocks;
}

template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a) {
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float scale = a.scale * kLog2E;
  auto& stages = s.stages[warp];
  const int of_head = runs_of_head(a), runs = a.kv_heads * of_head;
  const std::int64_t tiles = tiles_before(a, a.batch, lane) * runs;
  const std::int64_t part = part_of(tiles, gridDim.x), begin = blockIdx.x * part;
  const int count = static_cast<int>(min(part, tiles - begin));
  if (count <= 0) return;

  // The next tile to copy, and where it begins in the cache.
  Place ahead(a, runs, begin, lane), now = ahead;
  int left_to_copy = count;
  const auto cache_of = [&](const Place& place) {
    return Cache<T>(a, place.run / of_head, place.sequence, place.keys);
  };
  const auto where = [&](const Place& place) {
    const int key0 = place.tile * BN + warp * WN;
    return key0 < place.keys ? cache_of(place).at(key0) : 0;
  };
  std::int64_t at = where(ahead);
  const auto copy_next = [&](auto& to) {
    if (left_to_copy > 0) {
      constexpr int kChunk = 8, kChunks = D / kChunk, kAtOnce = 32 / kChunks;
      const Cache<T> cache = cache_of(ahead);
      const int chunk = lane % kChunks, key0 = ahead.tile * BN + warp * WN;
#pragma unroll
      for (int i = 0; i < WN; i += kAtOnce) {
        const int row = i + lane / kChunks;
        const bool exists = key0 + row < cache.keys;
        const std::int64_t from = exists ? at + row * cache.pitch + chunk * kChunk : 0;
        cp_async<16>(to.tiles.k.chunk(row, chunk), cache.k + from, exists ? 16 : 0);
        cp_async<16>(to.tiles.v.chunk(row, chunk), cache.v + from, exists ? 16 : 0);
      }
      ahead.advance(a, runs);
      if (--left_to_copy > 0) at = where(ahead);
    }
    cp_async_commit_group();
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) copy_next(stages[i]);

  const auto queries_of = [&](const Place& place) {
    return Queries<T>(a, place.run / of_head, place.sequence, place.keys);
  };
  GroupRows<T, D> rows;
  int stage = 0, first_tile = now.tile;  // of the run, in this block
  for (int left = count; left > 0; --left) {
    cp_async_wait_group<kStages - 2>();
    __syncwarp();  // the tile is there, and the one before is read
    copy_next(stages[(stage + kStages - 1) % kStages]);
    const int row0 = now.run % of_head * BM;
    if (now.tile == first_tile) rows.begin(queries_of(now), row0, lane);
    auto& of_warp = stages[stage];
    rows.add(of_warp.tiles.k, of_warp.tiles.v, now.tile * BN + warp * WN, scale, lane);

    const bool ends = now.is_last_of_run();
    if (ends || left == 1) {
      const Queries<T> queries = queries_of(now);
      __syncwarp();  // the tile is read: the sums take its place
      rows.store(of_warp.sums, s.max_and_sum[warp], lane);
      __syncthreads();
      for (int row = warp; row < BM && row0 + row < queries.rows; row += kWarps) {
        Row<D> sum;
        sum.add_up(
            s.max_and_sum, row,
            [&](int w, int column) { return *s.stages[w][stage].sums.at(row, column); }, lane);
        if (ends && first_tile == 0) {
          sum.store(queries, row0 + row, lane);
          continue;
        }
        const Pieces<T, D> to(a, gridDim.x);
        const std::int64_t piece = to.row(blockIdx.x, first_tile == 0, row);
#pragma unroll
        for (int c = 0; c < D / 64; ++c) {
          *reinterpret_cast<float2*>(to.sums + piece * D + lane * 2 + c * 64) = sum.sums[c];
        }
        if (lane == 0) to.max_and_sum[piece] = make_float2(sum.max, sum.weights);
      }
      __syncthreads();  // the sums are read: the next tiles take their place
      first_tile = 0;
    }
    now.advance(a, runs);
    stage = (stage + 1) % kStages;
  }
}

/// A warp has a row: of no key, or cut, or nothing to do.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) combine(Args<T> a, int blocks) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  const int kv_head = blockIdx.y, sequence = blockIdx.z;
  if (row >= a.heads / a.kv_heads * a.queries) return;
  const int of_head = runs_of_head(a), runs = a.kv_heads * of_head;
  const std::int64_t before = tiles_before(a, sequence, lane) * runs;
  const std::int64_t part = part_of(tiles_before(a, a.batch, lane) * runs, blocks);
  const int keys = a.keys_used[sequence], tiles = tiles_of(keys);

  int first = 0, pieces = 0;
  if (tiles > 0) {
    const std::int64_t begin = before + std::int64_t{kv_head * of_head + row / BM} * tiles;
    first = static_cast<int>(begin / part);
    pieces = static_cast<int>((begin + tiles - 1) / part) - first + 1;
    if (pieces == 1) return;  // the block has written the result
  }
  const Pieces<T, D> from(a, blocks);
  const auto piece = [&](int i) { return from.row(first + i, i == 0, row % BM); };
  Row<D> whole;
  whole.add_up(
      pieces, [&](int i) -> const float2& { return from.max_and_sum[piece(i)]; },
      [&](int i, int column) {
        return *reinterpret_cast<const float2*>(from.sums + std::int64_t{piece(i)} * D + column);
      },
      lane);
  whole.store(Queries<T>(a, kv_head, sequence, keys), row, lane);
}

struct Balanced {
  static constexpr ladder::Version version{"equal parts of all tiles, persistent blocks"};
  // Blocks that begin behind sequences of all lanes, and of all lanes twice
  static constexpr attention::Problem test_problems[] = {{.batch = 150,
                                                          .heads = 2,
                                                          .kv_heads = 1,
                                                          .queries = 1,
                                                          .keys = 80,
                                                          .d = 64,
                                                          .shortest_keys = 0}};

  template <class T>
  static std::size_t workspace(const Args<T>& a) {
    return a.d == 64 ? Pieces<T, 64>::bytes(blocks()) : Pieces<T, 128>::bytes(blocks());
  }
  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    const int rows = a.heads / a.kv_heads * a.queries;
    const dim3 all(ladder::ceil_div(rows, kWarps), a.kv_heads, a.batch);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      if (rows > 0 && a.batch > 0) {
        ladder::launch(attend<T, D>, blocks(), kThreads, sizeof(Shared<T, D>), stream, a);
      }
      ladder::launch(combine<T, D>, all, kThreads, 0, stream, a, blocks());
    });
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support memory =
        needs_shared_memory(p.d == 64 ? sizeof(Shared<T, 64>) : sizeof(Shared<T, 128>));
    return memory.ok ? needs_compute_capability(80) : memory;
  }

 private:
  static int blocks() { return kBlocksPerSm * ladder::sm_count(); }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<Balanced, attention_decode, half, bfloat16> registration;

}  // namespace
