// Idea      cp.async, three tiles deep: while a warp multiplies sixteen keys, the next thirty-two and
//           their values are on their way to shared memory
// Vs v53    no wait for what was asked for a moment ago, and no registers between global and shared
//           memory: a block of 4 warps has 64 KiB on their way at head size 128, two blocks of an SM
//           128 KiB. The block table is read a tile ahead of the copies that need it: sixteen keys
//           from a multiple of 16 on lie on one page. Warps share no tile, so none waits for another
// Bound by  memory; and by the last blocks: parts are of equal length within a sequence, but sequences
//           are not
// Limits    compute capability 8.0; more than 16 rows are several blocks, which each read all keys;
//           97 KiB of shared memory for head size 128. The bits of a sequence's result depend on its
//           own length alone, not on the batch or the GPU (splits.hpp)
// Tile      16 rows by 64 keys, 4 warps of 16 keys, 3 stages
#include "group_rows.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "splits.hpp"

namespace {

using namespace ladder::ptx;

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32, BM = 16, WN = 16, BN = kWarps * WN, kStages = 3;

template <class T, int D>
struct Shared {
  struct Stage {
    SwizzledTile<T, WN, D> k, v;
  };
  union OfWarp {
    Stage stages[kStages];
    RowSums<D> sums;
  };
  OfWarp warp[kWarps];
  float2 max_and_sum[kWarps][BM];
};

template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a) {
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const Splits<T> to(a);
  const int split = blockIdx.x % to.splits, row0 = blockIdx.x / to.splits * BM;
  const int kv_head = blockIdx.y, sequence = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Cache<T> cache(a, kv_head, sequence);
  const Queries<T> queries(a, kv_head, sequence, cache.keys);
  const float scale = a.scale * kLog2E;
  auto& stages = s.warp[warp].stages;

  const int of_part = Splits<T>::keys_of_part(cache.keys);
  const int begin = split * of_part + warp * WN, end = min((split + 1) * of_part, cache.keys);
  if (split * of_part >= end) return;

  // The next tile to copy, and where it begins in the cache.
  int ahead = begin;
  std::int64_t at = ahead < end ? cache.at(ahead) : 0;
  const auto copy_next = [&](typename Shared<T, D>::Stage& stage) {
    if (ahead < end) {
      constexpr int kChunk = 8, kChunks = D / kChunk, kAtOnce = 32 / kChunks;
      const int chunk = lane % kChunks;
#pragma unroll
      for (int i = 0; i < WN; i += kAtOnce) {
        const int row = i + lane / kChunks;
        const bool exists = ahead + row < end;
        const std::int64_t from = exists ? at + row * cache.pitch + chunk * kChunk : 0;
        cp_async<16>(stage.k.chunk(row, chunk), cache.k + from, exists ? 16 : 0);
        cp_async<16>(stage.v.chunk(row, chunk), cache.v + from, exists ? 16 : 0);
      }
      ahead += BN;
      if (ahead < end) at = cache.at(ahead);
    }
    cp_async_commit_group();
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) copy_next(stages[i]);

  GroupRows<T, D> rows;
  rows.begin(queries, row0, lane);
  int stage = 0;
  for (int key0 = begin; key0 < end; key0 += BN) {
    cp_async_wait_group<kStages - 2>();
    __syncwarp();  // the tile is there, and the one before is read
    copy_next(stages[(stage + kStages - 1) % kStages]);
    rows.add(stages[stage].k, stages[stage].v, key0, scale, lane);
    stage = (stage + 1) % kStages;
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

struct PagesAhead {
  static constexpr ladder::Version version{"cp.async, three tiles deep"};
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
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support memory =
        needs_shared_memory(p.d == 64 ? sizeof(Shared<T, 64>) : sizeof(Shared<T, 128>));
    return memory.ok ? needs_compute_capability(80) : memory;
  }
};

using ladder::bfloat16;
const ladder::Register<PagesAhead, attention_decode, bfloat16> registration;

}  // namespace
