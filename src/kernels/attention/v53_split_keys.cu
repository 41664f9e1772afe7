// Idea      the keys of a sequence are cut into parts, one for a block; a second kernel adds up what the
//           blocks have found, weighted by how far their maxima are below the largest
// Vs v52    32 times as many blocks where a sequence is long, so that one sequence fills a GPU. Of a
//           row and part 520 bytes are written and read again (head size 128): of a group of four
//           heads and parts of 128 keys 2 times 3 % of what is read of keys and values, of longer
//           parts less
// Bound by  latency: a warp loads, waits, multiplies; short sequences' parts are as short as 64 keys,
//           and blocks for parts that they lack begin and end at once
// Limits    compute capability 8.0; more than 16 rows are several blocks, which each read all keys;
//           34 KiB of shared memory for head size 128. The bits of a sequence's result depend on its
//           own length alone, not on the batch or the GPU (splits.hpp)
// Tile      16 rows by 64 keys, 4 warps of 16 keys
#include "device/vector.hpp"
#include "group_rows.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "splits.hpp"

namespace {

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32, BM = 16, WN = 16, BN = kWarps * WN;

template <class T, int D>
struct Shared {
  union OfWarp {
    struct {
      SwizzledTile<T, WN, D> k, v;
    } tiles;
    RowSums<D> sums;
  };
  OfWarp warp[kWarps];
  float2 max_and_sum[kWarps][BM];
};

template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a) {
  using Vec = ladder::Vec128<T>;
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const Splits<T> to(a);
  const int split = blockIdx.x % to.splits, row0 = blockIdx.x / to.splits * BM;
  const int kv_head = blockIdx.y, sequence = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Cache<T> cache(a, kv_head, sequence);
  const Queries<T> queries(a, kv_head, sequence, cache.keys);
  const float scale = a.scale * ladder::ptx::kLog2E;
  auto& tiles = s.warp[warp].tiles;

  const int of_part = Splits<T>::keys_of_part(cache.keys);
  const int begin = split * of_part, end = min(begin + of_part, cache.keys);
  if (begin >= end) return;
  GroupRows<T, D> rows;
  rows.begin(queries, row0, lane);
  for (int key0 = begin + warp * WN; key0 < end; key0 += BN) {
    constexpr int kChunks = D / Vec::size, kAtOnce = 32 / kChunks;
    const int chunk = lane % kChunks;
    const std::int64_t from = cache.at(key0) + chunk * Vec::size;
    Vec k[WN / kAtOnce], v[WN / kAtOnce];
#pragma unroll
    for (int i = 0; i < WN / kAtOnce; ++i) {
      const int row = i * kAtOnce + lane / kChunks;
      k[i] = v[i] = {};
      if (key0 + row < end) {
        k[i] = Vec::load(cache.k + from + row * cache.pitch);
        v[i] = Vec::load(cache.v + from + row * cache.pitch);
      }
    }
    __syncwarp();  // the tiles before are read
#pragma unroll
    for (int i = 0; i < WN / kAtOnce; ++i) {
      k[i].store(tiles.k.chunk(i * kAtOnce + lane / kChunks, chunk));
      v[i].store(tiles.v.chunk(i * kAtOnce + lane / kChunks, chunk));
    }
    __syncwarp();
    rows.add(tiles.k, tiles.v, key0, scale, lane);
  }

  __syncwarp();
  rows.store(s.warp[warp].sums, s.max_and_sum[warp], lane);
  __syncthreads();
  for (int row = warp; row < BM && row0 + row < queries.rows; row += kWarps) {
    Row<D> part;
    part.add_up(
        s.max_and_sum, row, [&](int w, int column) { return *s.warp[w].sums.at(row, column); },
        lane);
    store_part(part, to, to.part(a, sequence, kv_head, row0 + row, split), lane);
  }
}

/// A warp has a row.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) combine(Args<T> a) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= a.heads / a.kv_heads * a.queries) return;
  combine_parts<T, D>(a, blockIdx.z, blockIdx.y, row, threadIdx.x % 32);
}

struct SplitKeys {
  static constexpr ladder::Version version{"keys split over blocks, a second kernel combines"};
  // Parts of several tiles.
  static constexpr attention::Problem test_problems[] = {
      {.batch = 1, .heads = 2, .kv_heads = 1, .queries = 1, .keys = 10277, .d = 64, .page = 16}};

  template <class T>
  static std::size_t workspace(const Args<T>& a) {
    return Splits<T>::bytes(a);
  }
  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    const int rows = a.heads / a.kv_heads * a.queries, splits = Splits<T>::most_of(a.keys);
    const dim3 parts(ladder::ceil_div(rows, BM) * splits, a.kv_heads, a.batch);
    const dim3 all(ladder::ceil_div(rows, kWarps), a.kv_heads, a.batch);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(attend<T, D>, parts, kThreads, sizeof(Shared<T, D>), stream, a);
      ladder::launch(combine<T, D>, all, kThreads, 0, stream, a);
    });
  }
  static ladder::Support supports(const attention::Problem&) {
    return needs_compute_capability(80);
  }
};

using ladder::bfloat16;
const ladder::Register<SplitKeys, attention_decode, bfloat16> registration;

}  // namespace
