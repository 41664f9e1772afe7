// Idea      warp specialisation: a producer asks TMA for tiles of queries, two consumer warpgroups
//           make the gradients of 64 keys each
// Vs v35    the producer is a tile ahead without anyone's __syncthreads, and setmaxnreg moves its
//           registers to the consumers. Those still meet at two barriers a tile, since each makes
//           half of dq of both's gradients of scores
// Bound by  waiting: within a warpgroup products and exponentials take turns, and the two barriers
//           keep both in step; then the atomics
// Limits    compute capability 9.0a; 146 KiB of shared memory for head size 128; in the workspace 4
//           bytes for each element of dq
// Tile      128 keys by 64 queries, for head size 64 by 128, of which two are in flight; 2
//           warpgroups of 64 keys, for dq of 64 columns, for head size 64 of 64 queries
#include "backward_tiles.hpp"
#include "device/pipeline_state.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kConsumers = 2, BN = kConsumers * 64, kStages = 2;
constexpr int kThreads = (kConsumers + 1) * 128;

template <class T, int D>
struct Shared {
  Tile<T, BN, D> k, v;
  Tile<T, kQueries<D>, D> q[kStages], d_o[kStages];
  Tile<T, BN, kQueries<D>> ds;
  Rows<D> rows[kStages];
  Mbarrier kv_full, full[kStages], empty[kStages];
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    make_gradients(const __grid_constant__ CUtensorMap q_map,
                   const __grid_constant__ CUtensorMap d_o_map,
                   const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, attention_backward::Args<T> a,
                   QueryTiles tiles) {
  constexpr int BM = kQueries<D>;
  auto& s = aligned_shared<Shared<T, D>>();
  const int group = a.heads / a.kv_heads, first_head = static_cast<int>(blockIdx.y) * group;
  const BackwardHead<T> head(a, first_head,
                             blockIdx.z);  // and, but for its pointers, of the others
  head.clear_unused_keys(D, blockIdx.x);
  const int key0 = blockIdx.x * BN, warpgroup = threadIdx.x / 128;
  if (key0 >= head.keys) return;

  // The first query that sees a key of the tile; from there on the tiles of all heads of the group.
  const int begin = Op::kCausal ? max(0, key0 - head.diagonal) / BM * BM : 0;
  const std::int64_t first_tile = tiles.first(a, first_head, blockIdx.z);

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
  if (warpgroup == kConsumers) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128 || begin >= head.queries) return;
    const MapPlace at(a, blockIdx.z);
    mbarrier_arrive_expect_tx(&s.kv_full, 2 * s.k.kBytes);
    s.k.load(&k_map, at.key + key0, blockIdx.y, at.sequence, &s.kv_full);
    s.v.load(&v_map, at.key + key0, blockIdx.y, at.sequence, &s.kv_full);
    for (int h = 0; h < group; ++h) {
      for (int row0 = begin; row0 < head.queries; row0 += BM, state.advance()) {
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
  const auto meet = [] { named_barrier_sync<kConsumers * 128>(1); };
  if (begin < head.queries) mbarrier_wait(&s.kv_full, 0);
  if (begin < head.queries && key0 + BN > head.keys) {
    s.k.template clear_behind<kConsumers * 128>(head.keys - key0);
    s.v.template clear_behind<kConsumers * 128>(head.keys - key0);
    meet();
  }

  const int key = key0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // and the one 8 behind it
  float dk[D / 2] = {}, dv[D / 2] = {};
  for (int h = 0; h < group; ++h) {
    for (int row0 = begin; row0 < head.queries; row0 += BM, state.advance()) {
      const auto seen = [&](int query) { return head.template visible<Op>(row0 + query); };
      const int stage = state.stage;
      auto &q = s.q[stage], &d_o = s.d_o[stage];
      mbarrier_wait(&s.full[stage], state.parity);
      if (row0 + BM > head.queries) {
        q.template clear_behind<kConsumers * 128>(head.queries - row0);
        d_o.template clear_behind<kConsumers * 128>(head.queries - row0);
        meet();
      }

      float p[BM / 2], ds[BM / 2];  // first scores and the gradients of weights
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
        wgmma<BM, Major::k, Major::k, T>(p, s.k.over_columns(warpgroup * 64, i),
                                         q.over_columns(0, i), i > 0);
      }
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
        wgmma<BM, Major::k, Major::k, T>(ds, s.v.over_columns(warpgroup * 64, i),
                                         d_o.over_columns(0, i), i > 0);
      }
      wgmma_commit_group();
      wgmma_wait_group<0>(p, ds);
      weigh(p, s.rows[stage], a.scale * kLog2E, key0 + BN > seen(0), key, seen);
      make_gradients_of_scores(ds, p, s.rows[stage]);
      std::uint32_t weights[BM / 16][4], gradients[BM / 16][4];
      pack_weights<T>(weights, p);
      meet();  // the gradients before are read
      pack_weights<T>(gradients, ds);
      store_gradients(s.ds, warpgroup * 64, gradients);
      fence_proxy_async();

      wgmma_fence(dv, weights, dk, gradients);
#pragma unroll
      for (int i = 0; i < BM / 16; ++i) {
        wgmma<D, Major::mn, T>(dv, weights[i], d_o.over_rows(i), true);
      }
#pragma unroll
      for (int i = 0; i < BM / 16; ++i) {
        wgmma<D, Major::mn, T>(dk, gradients[i], q.over_rows(i), true);
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
      wgmma_wait_group<0>(dv, dk, dq, weights, gradients);
      if (threadIdx.x % 128 == 0) mbarrier_arrive(&s.empty[stage]);
      const std::int64_t tile = first_tile + h * tiles.of_head + row0 / BM;
      float4* const sums = tiles.sums_of(tile, warpgroup) + threadIdx.x % 128;
#pragma unroll
      for (int i = 0; i < kDqSums / 128; i += 4) {
        atomicAdd(sums + i / 4 * 128, make_float4(dq[i], dq[i + 1], dq[i + 2], dq[i + 3]));
      }
    }
  }
  store_rows(head.dk, head.k_pitch, key, head.keys, dk, a.scale);
  store_rows(head.dv, head.k_pitch, key, head.keys, dv, 1);
}

template <class Op>
struct WarpSpecialised {
  static constexpr ladder::Version version{.idea = "warp specialisation: a producer, two consumers",
                                           .unordered_sum = "dq"};

  // Two tiles of keys, six of queries; under a causal mask the last of keys begins late.
  static constexpr attention::Problem test_problems[] = {{1, 2, 1, 150, 140, 128}};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return QueryTiles(a).bytes;
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, cudaStream_t stream) {
    const QueryTiles tiles(a);
    ladder::fill_async(tiles.sums, 0, tiles.bytes_of_sums, stream);
    attention_backward_parts::launch_rows(a, tiles, stream);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(make_gradients<Op, T, D>, key_tiles(a, BN), kThreads,
                     kSharedBytes<Shared<T, D>>, stream, q_map(a, kQueries<D>),
                     q_map(a, a.d_o, kQueries<D>), kv_map(a, a.k, BN), kv_map(a, a.v, BN), a,
                     tiles);
    });
    attention_backward_parts::launch_round_dq(a, tiles, stream);
  }
};

using Plain = attention_backward;
using Causal = attention_causal_backward;
using ladder::bfloat16;
const ladder::Register<WarpSpecialised<Plain>, Plain, bfloat16> plain;
const ladder::Register<WarpSpecialised<Causal>, Causal, bfloat16> causal;

}  // namespace
