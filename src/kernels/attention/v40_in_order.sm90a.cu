// Idea      what tiles of keys add to a tile of queries' dq they add by turns, as in v34: a counter
//           says whose turn it is. The warp that has dq added waits for it and counts on, while the
//           consumers multiply the next tile. Each goes from the last queries back to the first that
//           see it, so that under a causal mask too all tiles of keys begin with the same queries
//
//             queries      7        6        5        4          behind the first one they follow,
//             keys 0       sets     sets     sets     sets …     a tile apart. From its first
//             keys 1                adds     adds     adds …     queries on, keys 2 would wait for
//             keys 2                         adds     adds …     keys 0 to get there
//
// Vs v39    the same bits in every run. For it the warp waits for whoever is late, then until its
//           sums are written, not only read, and releases them; the consumers wait with it as soon
//           as they have the next sums. And a block draws its number, since it may only wait for
//           such as have begun. In return nobody sets the sums of dq to zero: the first keys, whose
//           turn comes first, write theirs
// Bound by  the tensor cores; where few heads share the SMs, the turns: tiles of keys of one head
//           follow each other, a tile of queries apart
// Limits    compute capability 9.0a; 178 KiB of shared memory for head size 128; in the workspace 4
//           bytes for each element of dq
// Tile      128 keys by 64 queries, for head size 64 by 128, of which two are in flight; 2
//           warpgroups of 64 keys, for dq of 64 columns, for head size 64 of 64 queries
#include "backward_tiles.hpp"
#include "device/pipeline_state.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "tile_order.hpp"

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kConsumers = 2, BN = kConsumers * 64, kStages = 2;
constexpr int kThreads = (kConsumers + 1) * 128;

// Named barriers: of the consumers; and of them and the warp that has dq added.
constexpr int kMeeting = 1, kSumsFull = 2, kSumsEmpty = 3, kAdding = kConsumers * 128 + 32;

template <class T, int D>
struct Shared {
  Tile<T, BN, D> k, v;
  Tile<T, kQueries<D>, D> q[kStages], d_o[kStages];
  Tile<T, BN, kQueries<D>> ds;
  alignas(128) float4 dq[kTileSums / 4];  // as in the workspace
  Rows<D> rows[kStages];
  Mbarrier kv_full, full[kStages], empty[kStages];
  unsigned number;  // of this block, as they began
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    make_gradients(const __grid_constant__ CUtensorMap q_map,
                   const __grid_constant__ CUtensorMap d_o_map,
                   const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, attention_backward::Args<T> a,
                   QueryTiles tiles, TileOrder order) {
  constexpr int BM = kQueries<D>;
  auto& s = aligned_shared<Shared<T, D>>();
  if (threadIdx.x == 0) s.number = atomicAdd(tiles.counters, 1u);
  __syncthreads();
  const TilePlace place = order.at(static_cast<int>(s.number));
  const int group = a.heads / a.kv_heads, first_head = place.head * group;
  // The group's first head, and, but for its pointers, the others.
  const BackwardHead<T> head(a, first_head, place.sequence);
  head.clear_unused_keys(D, place.tile, order.tiles());
  const int key0 = place.tile * BN;
  // Of a shuffle the compiler knows that lanes have the same: descriptors are in uniform registers.
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  const std::int64_t first_tile = tiles.first(a, first_head, place.sequence);
  const int query_tiles = ladder::ceil_div(head.queries, BM);
  if (key0 >= head.keys) {
    // Where there are no keys at all the sums are zeros.
    for (int h = 0; h < group && key0 == 0; ++h) {
      auto* const sums = reinterpret_cast<float4*>(tiles.sums_of(first_tile + h * tiles.of_head));
      for (int i = threadIdx.x; i < query_tiles * (kTileSums / 4); i += kThreads) sums[i] = {};
    }
    return;
  }

  // Of each head of the group the tiles of queries from the last one on to the first that sees a key
  // of the tile. The first keys' sums are set, not added: those of queries that see no key too.
  const int begin = Op::kCausal && key0 > 0 ? max(0, key0 - head.diagonal) / BM * BM : 0;
  const int last = (query_tiles - 1) * BM;

  if (threadIdx.x == 0) {
    mbarrier_init(&s.kv_full, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&s.full[stage], 1);
      mbarrier_init(&s.empty[stage], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  ladder::PipelineState<kStages> state;
  if (warpgroup == kConsumers) {  // setmaxnreg; a thread loads, and a warp has dq added
    setmaxnreg_dec<24>();
    if (threadIdx.x / 32 == kConsumers * 4 + 1) {
      if (begin < head.queries) named_barrier_arrive<kAdding>(kSumsEmpty);
      for (int h = 0; h < group; ++h) {
        for (int row0 = last; row0 >= begin; row0 -= BM) {
          const std::int64_t tile = first_tile + h * tiles.of_head + row0 / BM;
          unsigned* const turn = tiles.counters + 1 + tile;
          named_barrier_sync<kAdding>(kSumsFull);
          if (threadIdx.x % 32 == 0) {
            while (load_acquire<Scope::gpu>(turn) != static_cast<unsigned>(place.tile)) {
            }
            if (place.tile == 0) {
              bulk_store(tiles.sums_of(tile), &s.dq[0].x, sizeof s.dq);
            } else {
              bulk_reduce<Reduction::add>(tiles.sums_of(tile), &s.dq[0].x, sizeof s.dq);
            }
            bulk_commit_group();
            bulk_wait_group_read<0>();
          }
          __syncwarp();
          const bool is_last = h + 1 == group && row0 == begin;
          if (!is_last) named_barrier_arrive<kAdding>(kSumsEmpty);
          if (threadIdx.x % 32 == 0) {
            bulk_wait_group<0>();  // added, not only read
            store_release<Scope::gpu>(turn, place.tile + 1);
          }
        }
      }
    }
    if (threadIdx.x != kConsumers * 128 || begin >= head.queries) return;
    const MapPlace at(a, place.sequence);
    mbarrier_arrive_expect_tx(&s.kv_full, 2 * s.k.kBytes);
    s.k.load(&k_map, at.key + key0, place.head, at.sequence, &s.kv_full);
    s.v.load(&v_map, at.key + key0, place.head, at.sequence, &s.kv_full);
    for (int h = 0; h < group; ++h) {
      for (int row0 = last; row0 >= begin; row0 -= BM, state.advance()) {
        const int stage = state.stage;
        Mbarrier* const full = &s.full[stage];
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&s.empty[stage], state.parity ^ 1);
        mbarrier_arrive_expect_tx(full, 2 * s.q[0].kBytes + sizeof(Rows<D>));
        s.q[stage].load(&q_map, at.query + row0, first_head + h, at.sequence, full);
        s.d_o[stage].load(&d_o_map, at.query + row0, first_head + h, at.sequence, full);
        bulk_load(&s.rows[stage], tiles.rows_of(first_tile + h * tiles.of_head + row0 / BM),
                  sizeof(Rows<D>), full);
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const auto meet = [] { named_barrier_sync<kConsumers * 128>(kMeeting); };
  if (begin < head.queries) mbarrier_wait(&s.kv_full, 0);
  if (begin < head.queries && key0 + BN > head.keys) {
    s.k.template clear_behind<kConsumers * 128>(head.keys - key0);
    s.v.template clear_behind<kConsumers * 128>(head.keys - key0);
    meet();
  }

  const int key = key0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // and the one 8 behind it
  float dk[D / 2] = {}, dv[D / 2] = {};
  float p[BM / 2];  // first scores
  // Asks for the scores of the tile of queries from row0 on.
  const auto multiply_k = [&](int row0) {
    auto &q = s.q[state.stage], &d_o = s.d_o[state.stage];
    mbarrier_wait(&s.full[state.stage], state.parity);
    if (row0 + BM > head.queries) {
      q.template clear_behind<kConsumers * 128>(head.queries - row0);
      d_o.template clear_behind<kConsumers * 128>(head.queries - row0);
      meet();
    }
    wgmma_fence(p);
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      wgmma<BM, Major::k, Major::k, T>(p, s.k.over_columns(warpgroup * 64, i), q.over_columns(0, i),
                                       i > 0);
    }
    wgmma_commit_group();
  };

  // From a tile's scores, which are under way, to those of the next one.
  const auto make_gradients_of = [&](int row0, int next_row0, auto next) {
    constexpr int kNext = decltype(next)::value;  // 1 if there is a next one
    const auto seen = [&](int query) { return head.template visible<Op>(row0 + query); };
    const int stage = state.stage;
    auto &q = s.q[stage], &d_o = s.d_o[stage];
    float ds[BM / 2];  // first gradients of weights
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      wgmma<BM, Major::k, Major::k, T>(ds, s.v.over_columns(warpgroup * 64, i),
                                       d_o.over_columns(0, i), i > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>(p);
    weigh(p, s.rows[stage], a.scale * kLog2E, key0 + BN > seen(0), key, seen);
    std::uint32_t weights[BM / 16][4], gradients[BM / 16][4];
    pack_weights<T>(weights, p);
    wgmma_wait_group<0>(ds);
    make_gradients_of_scores(ds, p, s.rows[stage]);
    pack_weights<T>(gradients, ds);
    store_gradients(s.ds, warpgroup * 64, gradients);
    fence_proxy_async();

    wgmma_fence(dv, weights, dk, gradients);
#pragma unroll
    for (int i = 0; i < BM / 16; ++i) {
      wgmma<D, Major::mn, T>(dv, weights[i], d_o.over_rows(i), true);
    }
    meet();  // the gradients of all keys are there
    float dq[kDqSums / 128];
    const int dq_rows = D == 64 ? warpgroup : 0, dq_columns = D == 64 ? 0 : warpgroup;
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      wgmma<64, Major::mn, Major::mn, T>(dq, s.ds.over_rows(i, dq_rows),
                                         s.k.over_rows(i, dq_columns), i > 0);
    }
    wgmma_commit_group();
#pragma unroll
    for (int i = 0; i < BM / 16; ++i) {
      wgmma<D, Major::mn, T>(dk, gradients[i], q.over_rows(i), true);
    }
    wgmma_commit_group();
    state.advance();
    wgmma_wait_group<1>(dq, dv, weights);
    named_barrier_sync<kAdding>(kSumsEmpty);  // and both have read the gradients of scores
    float4* const sums = s.dq + warpgroup * (kDqSums / 4) + threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < kDqSums / 128; i += 4) {
      sums[i / 4 * 128] = make_float4(dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
    }
    fence_proxy_async();
    named_barrier_arrive<kAdding>(kSumsFull);
    if constexpr (kNext > 0) multiply_k(next_row0);
    wgmma_wait_group<kNext>(dk, gradients);
    if (threadIdx.x % 128 == 0) mbarrier_arrive(&s.empty[stage]);
  };

  if (begin < head.queries) {
    multiply_k(last);
    int row0 = last;
    for (int left = group * (query_tiles - begin / BM) - 1; left > 0; --left) {
      const int next_row0 = row0 > begin ? row0 - BM : last;
      make_gradients_of(row0, next_row0, std::true_type{});
      row0 = next_row0;
    }
    make_gradients_of(row0, 0, std::false_type{});
  }
  store_rows(head.dk, head.k_pitch, key, head.keys, dk, a.scale);
  store_rows(head.dv, head.k_pitch, key, head.keys, dv, 1);
}

/// Counters: the next block's number, and whose turn it is at each tile of queries.
template <class T>
QueryTiles tiles_of(const attention_backward::Args<T>& a) {
  return QueryTiles(a, 1 + QueryTiles::count(a));
}

template <class Op>
struct InOrder {
  static constexpr ladder::Version version{"dq added in order"};

  // Three tiles of keys, six of queries; under a causal mask the last of keys begins late.
  static constexpr attention::Problem test_problems[] = {{1, 2, 1, 150, 260, 128}};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return tiles_of(a).bytes;
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, cudaStream_t stream) {
    const QueryTiles tiles = tiles_of(a);
    const TileOrder order = TileOrder::of_keys(a, BN);
    ladder::fill_async(tiles.counters, 0, (1 + tiles.count(a)) * sizeof(unsigned), stream);
    attention_backward_parts::launch_rows(a, tiles, stream);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(make_gradients<Op, T, D>, order.count(), kThreads, kSharedBytes<Shared<T, D>>,
                     stream, q_map(a, kQueries<D>), q_map(a, a.d_o, kQueries<D>),
                     kv_map(a, a.k, BN), kv_map(a, a.v, BN), a, tiles, order);
    });
    attention_backward_parts::launch_round_dq(a, tiles, stream);
  }
};

using Plain = attention_backward;
using Causal = attention_causal_backward;
using ladder::bfloat16;
using ladder::half;
const ladder::Register<InOrder<Plain>, Plain, half, bfloat16> plain;
const ladder::Register<InOrder<Causal>, Causal, half, bfloat16> causal;

}  // namespace
