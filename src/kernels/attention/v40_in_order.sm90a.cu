// Idea      what tiles of keys add to a tile of queries' dq they add by turns, as in v34: a counter
//           says whose turn it is. The warp that has dq added waits for it while the consumers
//           multiply the tile, and counts on while they multiply the next one. Each goes from the
//           last queries back to the first that see it, so that under a causal mask too all tiles
//           of keys begin with the same queries
//
//             queries      7        6        5        4          behind the first one they follow,
//             keys 0       sets     sets     sets     sets …     a tile apart. From its first
//             keys 1                adds     adds     adds …     queries on, keys 2 would wait for
//             keys 2                         adds     adds …     keys 0 to get there
//
// Vs v39b   the same bits in every run. For it the warp waits for whoever is late, then until its
//           sums are written, not only read, and releases them; where that takes longer than a
//           tile the consumers wait with it. Nobody waits for keys that were not drawn before. In
//           return nobody sets the sums of dq to zero: the first keys, whose turn comes first,
//           write theirs
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
#include "device/sm_count.hpp"
#include "tile_order.hpp"

#include <climits>

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kConsumers = 2, BN = kConsumers * 64, kStages = 2;
constexpr int kThreads = (kConsumers + 1) * 128;

// Named barriers: of the consumers; and of them and the warp that has dq added.
constexpr int kMeeting = 1, kSumsFull = 2, kSumsEmpty = 3, kAdding = kConsumers * 128 + 32;

/// A tile of keys that was drawn, and the queries that see it, of each head of the group.
struct Item {
  int first_head, heads, sequence;  // of queries; no heads behind the last tile
  int tile, begin, last;            // of keys; the queries are gone through from the last tile on
  int begin_of_next;                // where they would begin for the next tile of keys
  int map_query, map_sequence;      // where the queries begin in the maps
  int first_tile;                   // of queries, in the workspace
};

template <class T, int D>
struct Shared {
  Tile<T, BN, D> k, v;
  Tile<T, kQueries<D>, D> q[kStages], d_o[kStages];
  Tile<T, BN, kQueries<D>> ds;
  alignas(128) float4 dq[kTileSums / 4];  // as in the workspace
  Rows<D> rows[kStages];
  Mbarrier queries_loaded, drawn, kv_full, kv_empty, full[kStages], empty[kStages];
  Item items[2];  // the one that was drawn last, and the one before
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    make_gradients(const __grid_constant__ CUtensorMap q_map,
                   const __grid_constant__ CUtensorMap d_o_map,
                   const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, attention_backward::Args<T> a,
                   QueryTiles tiles, TileOrder order, unsigned* drawn, unsigned* turns) {
  constexpr int BM = kQueries<D>;
  auto& s = aligned_shared<Shared<T, D>>();
  // Of a shuffle the compiler knows that lanes have the same: descriptors are in uniform registers.
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  for (int i = blockIdx.x; i < a.kv_heads * a.batch; i += gridDim.x) {
    const int head = i % a.kv_heads * (a.heads / a.kv_heads);
    const BackwardHead<T> of(a, head, i / a.kv_heads);
    of.clear_unused_keys(D, 0, 1);
    // Where there are no keys at all the sums are zeros.
    for (int h = 0; h < a.heads / a.kv_heads && of.keys == 0; ++h) {
      const std::int64_t tile = tiles.first(a, head + h, i / a.kv_heads);
      auto* const sums = reinterpret_cast<float4*>(tiles.sums_of(tile));
      const int size = ladder::ceil_div(of.queries, BM) * (kTileSums / 4);
      for (int j = threadIdx.x; j < size; j += kThreads) sums[j] = {};
    }
  }

  if (threadIdx.x == 0) {
    mbarrier_init(&s.queries_loaded, 1);
    mbarrier_init(&s.drawn, 1);
    mbarrier_init(&s.kv_full, 1);
    mbarrier_init(&s.kv_empty, kConsumers * 4 + 1);  // warps
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&s.full[stage], 1);
      mbarrier_init(&s.empty[stage], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  ladder::PipelineState<kStages> state;
  if (warpgroup == kConsumers) {  // setmaxnreg
    setmaxnreg_dec<24>();
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    // Tiles of queries. An int is enough: each has 32 KiB of sums.
    const auto of_head = static_cast<int>(tiles.of_head);
    if (warp == 0 && lane == 0) {  // draws, and loads K and V
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      for (unsigned parity = 1;; parity ^= 1) {
        mbarrier_wait(&s.queries_loaded, parity);
        // Each block ends with a number too many; behind the last of these comes 0 again.
        const unsigned last_number = order.count() + gridDim.x - 1;
        const auto number = static_cast<int>(atomicInc(drawn, last_number));
        if (number >= order.count()) {
          mbarrier_wait(&s.kv_empty, parity);
          s.items[parity ^ 1] = {};
          mbarrier_arrive(&s.drawn);
          mbarrier_arrive(&s.kv_full);
          return;
        }
        const TilePlace place = order.at(number);
        const MapPlace at(a, place.sequence);
        const int group = a.heads / a.kv_heads, first_head = place.head * group;
        const Head<T> head(a, first_head, place.sequence);
        mbarrier_wait(&s.kv_empty, parity);
        // The first query that sees a key from key0 on is in the tile that begins here.
        const auto first_query = [&](int key0) {
          return Op::kCausal ? max(0, key0 - head.diagonal) / BM * BM : 0;
        };
        const int key0 = place.tile * BN, next_key0 = key0 + BN;
        // The first keys set the sums of all queries, of those too that see none.
        const int begin = key0 > 0 ? first_query(key0) : 0;
        const int begin_of_next = next_key0 < head.keys ? first_query(next_key0) : INT_MAX;
        const int count = key0 < head.keys ? ladder::ceil_div(head.queries, BM) : 0;
        const int last = (count - 1) * BM;
        const auto first_tile = static_cast<int>(tiles.first(a, first_head, place.sequence));
        s.items[parity ^ 1] = {first_head, group,         place.sequence, place.tile,  begin,
                               last,       begin_of_next, at.query,       at.sequence, first_tile};
        mbarrier_arrive(&s.drawn);
        if (begin > last) {
          mbarrier_arrive(&s.kv_full);
          continue;
        }
        mbarrier_arrive_expect_tx(&s.kv_full, 2 * s.k.kBytes);
        s.k.load(&k_map, at.key + key0, place.head, at.sequence, &s.kv_full);
        s.v.load(&v_map, at.key + key0, place.head, at.sequence, &s.kv_full);
      }
    }
    if (warp == 1 && lane == 0) {  // loads queries
      for (unsigned parity = 0;; parity ^= 1) {
        mbarrier_wait(&s.drawn, parity);
        const Item& item = s.items[parity];
        if (item.heads == 0) return;
        for (int h = 0; h < item.heads; ++h) {
          for (int row0 = item.last; row0 >= item.begin; row0 -= BM, state.advance()) {
            const int stage = state.stage;
            Mbarrier* const full = &s.full[stage];
            mbarrier_wait(&s.empty[stage], state.parity ^ 1);
            mbarrier_arrive_expect_tx(full, 2 * s.q[0].kBytes + sizeof(Rows<D>));
            s.q[stage].load(&q_map, item.map_query + row0, item.first_head + h, item.map_sequence,
                            full);
            s.d_o[stage].load(&d_o_map, item.map_query + row0, item.first_head + h,
                              item.map_sequence, full);
            bulk_load(&s.rows[stage], tiles.rows_of(item.first_tile + h * of_head + row0 / BM),
                      sizeof(Rows<D>), full);
          }
        }
        mbarrier_arrive(&s.queries_loaded);
      }
    }
    if (warp == 2) {  // has dq added
      for (unsigned parity = 0;; parity ^= 1) {
        mbarrier_wait(&s.drawn, parity);
        const Item item = s.items[parity];
        __syncwarp();
        if (lane == 0) mbarrier_arrive(&s.kv_empty);
        if (item.heads == 0) return;
        if (item.begin <= item.last) named_barrier_arrive<kAdding>(kSumsEmpty);
        for (int h = 0; h < item.heads; ++h) {
          for (int row0 = item.last; row0 >= item.begin; row0 -= BM) {
            const int tile = item.first_tile + h * of_head + row0 / BM;
            unsigned* const turn = turns + tile;
            if (lane == 0) {
              while (load_acquire<Scope::gpu>(turn) != static_cast<unsigned>(item.tile)) {
              }
            }
            named_barrier_sync<kAdding>(kSumsFull);
            if (lane == 0) {
              if (item.tile == 0) {
                bulk_store(tiles.sums_of(tile), &s.dq[0].x, sizeof s.dq);
              } else {
                bulk_reduce<Reduction::add>(tiles.sums_of(tile), &s.dq[0].x, sizeof s.dq);
              }
              bulk_commit_group();
              bulk_wait_group_read<0>();
            }
            __syncwarp();
            const bool is_last = h + 1 == item.heads && row0 == item.begin;
            const bool is_last_turn = row0 < s.items[parity].begin_of_next;
            if (!is_last) named_barrier_arrive<kAdding>(kSumsEmpty);
            if (lane == 0) {
              bulk_wait_group<0>();  // added, not only read
              store_release<Scope::gpu>(turn, is_last_turn ? 0 : item.tile + 1);
            }
          }
        }
      }
    }
    return;
  }

  setmaxnreg_inc<240>();
  const auto meet = [] { named_barrier_sync<kConsumers * 128>(kMeeting); };
  const auto release_keys = [&] {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&s.kv_empty);
  };
  for (unsigned parity = 0;; parity ^= 1) {
    mbarrier_wait(&s.kv_full, parity);
    const Item& item = s.items[parity];
    if (item.heads == 0) return;
    // The group's first head, and, but for its pointers, the others.
    const Head<T> head(a, item.first_head, item.sequence);
    const int key0 = item.tile * BN, begin = item.begin, last = item.last;
    if (begin <= last && key0 + BN > head.keys) {
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
        wgmma<BM, Major::k, Major::k, T>(p, s.k.over_columns(warpgroup * 64, i),
                                         q.over_columns(0, i), i > 0);
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
      if constexpr (kNext == 0) release_keys();
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

    if (begin <= last) {
      multiply_k(last);
      int row0 = last;
      for (int left = item.heads * (last - begin + BM) / BM - 1; left > 0; --left) {
        const int next_row0 = row0 > begin ? row0 - BM : last;
        make_gradients_of(row0, next_row0, std::true_type{});
        row0 = next_row0;
      }
      make_gradients_of(row0, 0, std::false_type{});
    } else {
      release_keys();
    }
    const BackwardHead<T> of(a, item.first_head, item.sequence);  // once more: registers are few
    store_rows(of.dk, of.k_pitch, key, of.keys, dk, a.scale);
    store_rows(of.dv, of.k_pitch, key, of.keys, dv, 1);
  }
}

template <class Op>
struct InOrder {
  static constexpr ladder::Version version{"dq added in order"};

  // Three tiles of keys, six of queries; under a causal mask the last of keys begins
  // late. And blocks with several tiles of keys that no query sees
  static constexpr attention::Problem test_problems[] = {{1, 2, 1, 150, 260, 128},
                                                         {2, 3, 3, 40, 300, 64, -1, false, true}};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return QueryTiles(a).bytes;
  }
  /// How many tiles of keys were drawn, and whose turn it is at each tile of queries.
  template <class T>
  static std::size_t state(const attention_backward::Args<T>& a) {
    return (1 + static_cast<std::size_t>(QueryTiles::count(a))) * sizeof(unsigned);
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, void* state, cudaStream_t stream) {
    const QueryTiles tiles(a);
    const TileOrder order = TileOrder::of_keys(a, BN);
    auto *const drawn = static_cast<unsigned*>(state), *const turns = drawn + 1;
    attention_backward_parts::launch_rows(a, tiles, stream);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(make_gradients<Op, T, D>, std::min(order.count(), ladder::sm_count()),
                     kThreads, kSharedBytes<Shared<T, D>>, stream, q_map(a, kQueries<D>),
                     q_map(a, a.d_o, kQueries<D>), kv_map(a, a.k, BN), kv_map(a, a.v, BN), a, tiles,
                     order, drawn, turns);
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
