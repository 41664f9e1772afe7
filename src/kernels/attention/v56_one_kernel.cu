// Idea      no second kernel: of the blocks that have a piece of the same rows, the one that comes last
//           adds them up. Each warp counts for its rows, which no other warp of the block has to do with
// Vs v55    one launch. The lengths are read before the first copy once, not twice. Three tiles are on
//           their way while one is waited for, instead of two; with a run's first tile come its
//           queries, for which nobody waits then, and the number of a page is used a tile after it was
//           asked for. Copies of a cache that is not many times the L2 are the first to leave it: what
//           other kernels wrote stays there and does not go to DRAM while this one reads. And it takes
//           problems of the forward operation in which few queries see many keys: they are the same
// Bound by  memory
// Limits    as v55, with 109 KiB of shared memory for head size 128; 2^30 tiles. Of more than 16 rows the
//           second block finds less in the L2 than in v55
// Tile      16 rows by 64 keys, 4 warps of 16 keys, 3 stages
#include "device/ptx/memory_order.hpp"
#include "device/sm_count.hpp"
#include "group_rows.hpp"
#include "head.hpp"
#include "limits.hpp"

#include <algorithm>

namespace {

using namespace ladder::ptx;

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32, BM = 16, WN = 16, BN = kWarps * WN, kStages = 3;
constexpr int kBlocksPerSm = 2, kMostBlocks = 1024;

template <class T, int D>
struct Shared {
  union Stage {
    struct {
      SwizzledTile<T, WN, D> k, v;
    } tiles;
    RowSums<D> sums;  // of the same size
  };
  Stage stages[kWarps][kStages];
  SwizzledTile<T, BM, D> queries[kStages];  // of the runs that begin in the stages
  float2 max_and_sum[kWarps][BM];
};

__host__ __device__ int tiles_of(int keys) { return ladder::ceil_div(keys, BN); }

/// A tile: of a sequence, of a head of its keys, of one of its runs, which are sixteen rows of queries
/// each.
struct Place {
  int sequence = 0, keys = 0, kv_head = 0, run = 0, tile = 0;

  __device__ bool is_last_of_run() const { return tile + 1 == tiles_of(keys); }

  template <class T>
  __device__ void advance(const Args<T>& a, int of_head) {
    if (++tile < tiles_of(keys)) return;
    tile = 0;
    if (++run < of_head) return;
    run = 0;
    if (++kv_head < a.kv_heads) return;
    kv_head = 0;
    do {
      if (++sequence == a.batch) return;
      keys = a.keys_of(sequence);
    } while (keys == 0);
  }
};

/// The tiles of all sequences one behind the other; of a sequence those of its runs.
/// A warp's: each lane has as many sequences, which follow each other.
struct Tiles {
  int runs, of_lane;      // of a sequence; sequences
  int own, up_to, total;  // tiles of one run: of this lane's sequences, and those before; all tiles

  template <class T>
  __device__ Tiles(const Args<T>& a, int of_head, int lane)
      : runs(a.kv_heads * of_head), of_lane(ladder::ceil_div(a.batch, 32)), own(0) {
    const int end = min(a.batch, (lane + 1) * of_lane);
#pragma unroll 1
    for (int b = lane * of_lane; b < end; ++b) own += tiles_of(a.keys_of(b));
    up_to = own;
    for (int i = 1; i < 32; i *= 2) {
      const int other = __shfl_up_sync(0xffffffff, up_to, i);
      if (lane >= i) up_to += other;
    }
    total = __shfl_sync(0xffffffff, up_to, 31) * runs;
  }

  /// The tile of a number; any place where there is none.
  template <class T>
  __device__ Place operator()(const Args<T>& a, int of_head, int number) const {
    const unsigned behind = __ballot_sync(0xffffffff, up_to * runs > number);
    if (behind == 0) return {};
    const int found = __ffs(static_cast<int>(behind)) - 1;
    number -= __shfl_sync(0xffffffff, up_to - own, found) * runs;
    for (int sequence = found * of_lane;; ++sequence) {
      const int keys = a.keys_of(sequence), tiles = tiles_of(keys);
      if (number < tiles * runs) {
        const int run = number / tiles;
        return {sequence, keys, run / of_head, run % of_head, number % tiles};
      }
      number -= tiles * runs;
    }
  }
};

/// How many pieces of each warp's rows are in the workspace, of a run that a block begins and leaves to
/// the next: the state, for each block.
struct Arrived {
  unsigned pieces[kWarps];
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
  __device__ explicit Pieces(const Args<T>& a)
      : sums(static_cast<float*>(a.workspace)),
        max_and_sum(reinterpret_cast<float2*>(sums + gridDim.x * 2 * BM * D)) {}

  __device__ static int at(int block, bool begins, int row) {
    return (block * 2 + int{begins}) * BM + row;
  }
  __device__ void store(const Row<D>& row, int to, int lane) const {
#pragma unroll
    for (int c = 0; c < D / 64; ++c) {
      __stcg(reinterpret_cast<float2*>(sums + to * D + lane * 2 + c * 64), row.sums[c]);
    }
    if (lane == 0) __stcg(max_and_sum + to, make_float2(row.max, row.weights));
  }

  /// A row of a run whose pieces are those of `count` blocks, in their order: of 32 pieces each lane
  /// has one's maximum, and the sums of kAtOnce are on their way from the L2 together.
  __device__ Row<D> add_up(int first, int count, int row, int lane) const {
    constexpr int kAtOnce = 8;
    const auto own = [&](int i) {
      return i < count ? __ldcg(max_and_sum + at(first + i, i == 0, row))
                       : make_float2(-INFINITY, 0);
    };
    float2 of_lane = own(lane);
    Row<D> whole{.sums = {}, .max = of_lane.x, .weights = 0};
    for (int i = 32 + lane; i < count; i += 32) whole.max = fmaxf(whole.max, own(i).x);
    for (int i = 16; i > 0; i /= 2) {
      whole.max = fmaxf(whole.max, __shfl_xor_sync(0xffffffff, whole.max, i));
    }
    const float from = whole.max == -INFINITY ? 0 : whole.max;  // -inf - -inf is no number
#pragma unroll 1
    for (int begin = 0; begin < count; begin += 32) {
      if (begin > 0) of_lane = own(begin + lane);
      const float factor = exp2_approx(of_lane.x - from);
      whole.weights += of_lane.y * factor;
#pragma unroll 1
      for (int i = 0; i < min(32, count - begin); i += kAtOnce) {
        float2 pairs[kAtOnce][D / 64] = {};
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int piece = begin + i + j;
          if (piece >= count) continue;
          const float* const of_piece = sums + at(first + piece, piece == 0, row) * D;
#pragma unroll
          for (int c = 0; c < D / 64; ++c) {
            pairs[j][c] = __ldcg(reinterpret_cast<const float2*>(of_piece + lane * 2 + c * 64));
          }
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const float of_piece = __shfl_sync(0xffffffff, factor, i + j);
#pragma unroll
          for (int c = 0; c < D / 64; ++c) {
            whole.sums[c].x += pairs[j][c].x * of_piece;
            whole.sums[c].y += pairs[j][c].y * of_piece;
          }
        }
      }
    }
    for (int i = 16; i > 0; i /= 2) {
      whole.weights += __shfl_xor_sync(0xffffffff, whole.weights, i);
    }
    return whole;
  }
};

/// The rows of sequences without a key, which have no tile.
template <class T, int D>
__device__ void store_rows_of_no_key(const Args<T>& a, int warp, int lane) {
  for (int sequence = blockIdx.x; sequence < a.batch; sequence += gridDim.x) {
    if (a.keys_of(sequence) > 0) continue;
    for (int kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      const Queries<T> queries(a, kv_head, sequence, 0);
      const Row<D> none{.sums = {}, .max = -INFINITY, .weights = 0};
#pragma unroll 1
      for (int row = warp; row < queries.rows; row += kWarps) none.store(queries, row, lane);
    }
  }
}

/// 16 bytes, or zeros.
template <bool kStreams, class T>
__device__ __forceinline__ void copy(T* to, const T* from, bool exists) {
  if constexpr (kStreams) {
    cp_async_streaming(to, from, exists);
  } else {
    cp_async<16>(to, from, exists ? 16 : 0);
  }
}

/// `of_head`: how many runs there are of each head of keys.
template <class T, int D, bool kStreams>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a, int of_head, Arrived* arrived) {
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float scale = a.scale * kLog2E;
  auto& stages = s.stages[warp];
  const Tiles tiles(a, of_head, lane);
  const int part = ladder::ceil_div(tiles.total, static_cast<int>(gridDim.x));
  const int begin = static_cast<int>(blockIdx.x) * part, count = min(part, tiles.total - begin);

  // The next tile to copy, and its page; the tiles that are in the stages, the oldest first.
  Place ahead = tiles(a, of_head, begin), places[kStages];
  int left_to_copy = count, queries_ahead = 0;
  const auto cache_of = [&](const Place& place) {
    return Cache<T>(a, place.kv_head, place.sequence, place.keys);
  };
  const auto queries_of = [&](const Place& place) {
    return Queries<T>(a, place.kv_head, place.sequence, place.keys);
  };
  const auto first_key = [&](const Place& place) { return place.tile * BN + warp * WN; };
  const auto page_of = [&](const Place& place) {
    const int key0 = first_key(place);
    return key0 < place.keys ? cache_of(place).page_of(key0) : 0;
  };
  std::int32_t page = page_of(ahead);
  const auto copy_next = [&](auto& to) {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) places[i] = places[i + 1];
    places[kStages - 1] = ahead;
    if (left_to_copy > 0) {
      constexpr int kChunk = 8, kChunks = D / kChunk, kAtOnce = 32 / kChunks;
      const int chunk = lane % kChunks, of_lane = lane / kChunks;
      const Cache<T> cache = cache_of(ahead);
      const int key0 = first_key(ahead);
      const std::int64_t at = cache.at(key0, page);
#pragma unroll
      for (int i = 0; i < WN; i += kAtOnce) {
        const int row = i + of_lane;
        const bool exists = key0 + row < cache.keys;
        const std::int64_t from = exists ? at + row * cache.pitch + chunk * kChunk : 0;
        copy<kStreams>(to.tiles.k.chunk(row, chunk), cache.k + from, exists);
        copy<kStreams>(to.tiles.v.chunk(row, chunk), cache.v + from, exists);
      }
      if (ahead.tile == 0 || left_to_copy == count) {  // each warp copies four rows
        const Queries<T> queries = queries_of(ahead);
#pragma unroll
        for (int i = 0; i < BM / kWarps; i += kAtOnce) {
          const int row = warp * (BM / kWarps) + i + of_lane, from = ahead.run * BM + row;
          const bool exists = from < queries.rows;
          cp_async<16>(s.queries[queries_ahead].chunk(row, chunk),
                       queries.q + (exists ? queries.at(from) + chunk * kChunk : 0),
                       exists ? 16 : 0);
        }
        queries_ahead = (queries_ahead + 1) % kStages;
      }
      if (--left_to_copy > 0) {
        ahead.advance(a, of_head);
        page = page_of(ahead);
      }
    }
    cp_async_commit_group();
  };
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) copy_next(stages[i]);
  store_rows_of_no_key<T, D>(a, warp, lane);
  if (count <= 0) return;

  GroupRows<T, D> rows;
  int stage = 0, queries_here = 0, first_tile = places[0].tile;  // of the run, in this block
  cp_async_wait_group<kStages - 1>();
  __syncthreads();  // the queries are there
  for (int left = count; left > 0; --left) {
    const Place now = places[0];
    const Queries<T> queries = queries_of(now);
    const int row0 = now.run * BM;
    auto& of_warp = stages[stage];
    cp_async_wait_group<kStages - 1>();
    __syncwarp();  // the tile is there
    if (now.tile == first_tile) {
      rows.begin(s.queries[queries_here], queries, row0, lane);
      queries_here = (queries_here + 1) % kStages;
    }
    rows.add(of_warp.tiles.k, of_warp.tiles.v, first_key(now), scale, lane);
    __syncwarp();  // the tile is read: the sums or the next one take its place

    const bool ends = now.is_last_of_run();
    if (ends || left == 1) {
      rows.store(of_warp.sums, s.max_and_sum[warp], lane);
      __syncthreads();
      const Pieces<T, D> pieces(a);
      const int end = min(BM, queries.rows - row0);
      const bool is_cut = !ends || first_tile > 0;
#pragma unroll 1
      for (int row = warp; row < end; row += kWarps) {
        Row<D> sum;
        sum.add_up(
            s.max_and_sum, row,
            [&](int w, int column) { return *s.stages[w][stage].sums.at(row, column); }, lane);
        if (is_cut) {
          pieces.store(sum, pieces.at(blockIdx.x, first_tile == 0, row), lane);
        } else {
          sum.store(queries, row0 + row, lane);
        }
      }
      cp_async_wait_group<kStages - 2>();
      __syncthreads();  // the sums are read, and the next run's queries are there

      if (is_cut && warp < end) {
        const int begin_of_run = begin + count - left - now.tile;
        const int first = begin_of_run / part;
        const int all = (begin_of_run + tiles_of(now.keys) - 1) / part - first + 1;
        unsigned* const counter = &arrived[first].pieces[warp];
        unsigned before = 0;
        if (lane == 0) before = add_acquire_release<Scope::gpu>(counter, 1);
        before = __shfl_sync(0xffffffff, before, 0);
        if (before + 1 == static_cast<unsigned>(all)) {
          __syncwarp();  // what lane 0 has acquired the others see as well
          if (lane == 0) *counter = 0;
#pragma unroll 1
          for (int row = warp; row < end; row += kWarps) {
            pieces.add_up(first, all, row, lane).store(queries, row0 + row, lane);
          }
        }
      }
      first_tile = 0;
    }
    copy_next(of_warp);
    stage = (stage + 1) % kStages;
  }
}

struct OneKernel {
  static constexpr ladder::Version version{"the last block adds up what was cut"};
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
  /// Of as many blocks as there can be that have tiles, where a run has several and can be cut.
  template <class T>
  static std::size_t state(const Args<T>& a) {
    if (tiles_of(a.keys) <= 1) return 0;
    return sizeof(Arrived) *
           static_cast<std::size_t>(min(most_tiles(a), std::int64_t{kMostBlocks}));
  }
  template <class T>
  static void launch(const Args<T>& a, void* state, cudaStream_t stream) {
    const int of_head = runs_of_head(a);
    if (of_head == 0 || a.batch == 0) return;
    // Measured: from here on streams are the slower ones.
    constexpr double kLargest = 512 << 20;  // bytes
    const bool streams = 2.0 * sizeof(T) * a.batch * a.kv_heads * a.keys * a.d < kLargest;
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(streams ? attend<T, D, true> : attend<T, D, false>, blocks(), kThreads,
                     sizeof(Shared<T, D>), stream, a, of_head, static_cast<Arrived*>(state));
    });
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support memory =
        needs_shared_memory(p.d == 64 ? sizeof(Shared<T, 64>) : sizeof(Shared<T, 128>));
    if (!memory.ok) return memory;
    if (most_tiles(p) > 1 << 30) return ladder::unsupported("more than 2^30 tiles");
    return needs_compute_capability(80);
  }

 private:
  // Of arguments or of a problem.
  template <class Sizes>
  static int runs_of_head(const Sizes& s) {
    return ladder::ceil_div(s.heads / std::max(s.kv_heads, 1) * s.queries, BM);
  }
  template <class Sizes>
  static std::int64_t most_tiles(const Sizes& s) {
    return std::int64_t{s.batch} * s.kv_heads * runs_of_head(s) * tiles_of(s.keys);
  }
  static int blocks() { return min(kMostBlocks, kBlocksPerSm * ladder::sm_count()); }
};

/// Of the forward operation, whose keys and values are a cache that is used as a whole.
template <class Op>
struct FewQueries {
  static constexpr ladder::Version version{"few queries: keys in equal parts, one kernel"};
  static constexpr int kMostRows = 128;  // that share a head of keys: so many / 16 blocks read it

  template <class T>
  static std::size_t workspace(const attention::Args<T>& a) {
    return OneKernel::workspace(as_decode(a));
  }
  template <class T>
  static std::size_t state(const attention::Args<T>& a) {
    return OneKernel::state(as_decode(a));
  }
  template <class T>
  static void launch(const attention::Args<T>& a, void* state, cudaStream_t stream) {
    OneKernel::launch(as_decode(a), state, stream);
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    if (p.heads / std::max(p.kv_heads, 1) * p.queries > kMostRows) {
      return ladder::unsupported("more than 128 rows of queries share a head of keys");
    }
    if (Op::kCausal && p.top_left) {
      return ladder::unsupported("the causal mask is aligned at the top left");
    }
    const ladder::Support lengths = needs_equal_lengths(p);
    return lengths.ok ? OneKernel::supports<T>(p) : lengths;
  }

 private:
  template <class T>
  static Args<T> as_decode(const attention::Args<T>& a) {
    return {.q = a.q,
            .k = a.k,
            .v = a.v,
            .o = a.o,
            .lse = a.lse,
            .q_strides = a.q_strides,
            .k_strides = a.k_strides,
            .lse_strides = a.lse_strides,
            .batch = a.batch,
            .heads = a.heads,
            .kv_heads = a.kv_heads,
            .queries = a.queries,
            .keys = a.keys,
            .d = a.d,
            .scale = a.scale,
            .all_seen = !Op::kCausal,
            .workspace = a.workspace};
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<OneKernel, attention_decode, half, bfloat16> registration;
const ladder::Register<FewQueries<attention>, attention, half, bfloat16> plain;
const ladder::Register<FewQueries<attention_causal>, attention_causal, half, bfloat16> causal;

}  // namespace
