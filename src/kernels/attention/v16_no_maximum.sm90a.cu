// Idea      no maximum is looked for: weights are made relative to the maximum so far at once, and their
//           sums, which are needed in any case, tell if one of them was too large
// Vs v15    a fifth fewer operations for each score, and an exponential waits for nothing but its score.
//           Scores are kept until the sums are known, so that weights have registers of their own: two
//           sets, of which one is multiplied while the other one is filled
// Bound by  power: the tensor cores are busy, and the clock is not what it could be
// Limits    compute capability 9.0a; 193 KiB of shared memory for head size 128
// Tile      128 queries by 128 keys, 2 warpgroups of 64 queries; two stages of Q, of K and of V
#include "bulk_tiles.hpp"
#include "device/pipeline_state.hpp"
#include "device/ptx/named_barrier.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "device/sm_count.hpp"
#include "limits.hpp"
#include "sum_checked_rows.hpp"
#include "tile_order.hpp"

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kConsumers = 2, BM = kConsumers * 64, BN = 128, kStages = 2;
constexpr int kThreads = (kConsumers + 1) * 128;
using State = ladder::PipelineState<kStages>;

template <class T, int D>
struct Shared {
  Tile<T, BM, D> q[kStages];
  Tile<T, BN, D> k[kStages], v[kStages];
  Mbarrier q_full[kStages], k_full[kStages], v_full[kStages];
  Mbarrier q_empty[kStages], k_empty[kStages], v_empty[kStages], v_landed;
  int tile[kStages];  // whose Q is there
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    attend(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
           const __grid_constant__ CUtensorMap v_map, attention::Args<T> a, TileOrder order,
           unsigned* drawn) {
  auto& s = aligned_shared<Shared<T, D>>();
  const int warp = static_cast<int>(ladder::uniform(threadIdx.x / 32)), warpgroup = warp / 4;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    mbarrier_init(&s.v_landed, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&s.q_full[stage], 1);
      mbarrier_init(&s.k_full[stage], 1);
      mbarrier_init(&s.v_full[stage], 1);
      mbarrier_init(&s.q_empty[stage], kConsumers * 4);  // warps
      mbarrier_init(&s.k_empty[stage], kConsumers);
      mbarrier_init(&s.v_empty[stage], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  State state, q_state;           // of K and V; of Q
  if (warpgroup == kConsumers) {  // the producer warpgroup: setmaxnreg, one warp loads
    setmaxnreg_dec<40>();
    if (warp != kConsumers * 4) return;
    TileQueue items(drawn, order);
    const bool asks = lane == 0;
    unsigned landed_parity = 0;
    while (true) {
      const int item = __shfl_sync(0xffffffff, asks ? items.next() : 0, 0);
      const int tile = item < order.count() ? item : -1;
      const TilePlace at = order.at(max(tile, 0));
      const Head<T> head(a, at.head, at.sequence);
      const int row0 = at.tile * BM;
      if (tile >= 0 && row0 >= head.queries) continue;  // of a shorter sequence
      Mbarrier* const q_full = &s.q_full[q_state.stage];
      // Only the lane that asks waits for what is empty: nothing holds the phase for the others, and
      // one that looks late could not tell it from the next.
      if (asks) {
        // A new mbarrier reports the previous phase complete, so the first pass does not block.
        mbarrier_wait(&s.q_empty[q_state.stage], q_state.parity ^ 1);
        s.tile[q_state.stage] = tile;
      }
      if (tile < 0) {
        if (asks) mbarrier_arrive(q_full);
        return;
      }
      const int end = head.template visible<Op>(row0 + BM - 1);  // what is seen at all
      const int kv_head = at.head / (a.heads / a.kv_heads);
      const MapPlace first(a, at.sequence);
      if (asks) {
        auto& q = s.q[q_state.stage];
        mbarrier_arrive_expect_tx(q_full, q.kBytes);
        q.load(&q_map, first.query + row0, at.head, first.sequence, q_full);
      }
      q_state.advance();
      const auto load = [&](Tile<T, BN, D>& to, const CUtensorMap& map, int key0, Mbarrier* full,
                            Mbarrier* empty, unsigned parity) {
        if (!asks) return;
        mbarrier_wait(empty, parity ^ 1);
        mbarrier_arrive_expect_tx(full, to.kBytes);
        to.load(&map, first.key + key0, kv_head, first.sequence, full);
      };
      const auto load_k = [&](int key0) {
        const int stage = state.stage;
        load(s.k[stage], k_map, key0, &s.k_full[stage], &s.k_empty[stage], state.parity);
        state.advance();
      };
      const auto load_v = [&](int key0, State of) {
        auto& v = s.v[of.stage];
        Mbarrier *const full = &s.v_full[of.stage], *const empty = &s.v_empty[of.stage];
        if (a.query_starts == nullptr || key0 + BN <= head.keys) {
          return load(v, v_map, key0, full, empty, of.parity);
        }
        load(v, v_map, key0, &s.v_landed, empty, of.parity);
        mbarrier_wait(&s.v_landed, landed_parity);
        landed_parity ^= 1;
        v.template clear_behind<32>(head.keys - key0);
        __syncwarp();
        if (asks) mbarrier_arrive(full);
      };
      // In the order in which they are multiplied: a K-tile's keys before the values of the one before.
      if (end > 0) load_k(0);
      for (int key0 = 0; key0 < end; key0 += BN) {
        const State of = state.before();
        if (key0 + BN < end) load_k(key0 + BN);
        load_v(key0, of);
      }
    }
  }

  setmaxnreg_inc<232>();
  const bool releases = threadIdx.x % 128 == 0;
  // A turn is a named barrier: the one who waits for it, and the other, who arrives.
  const auto take_turn = [&] { named_barrier_sync<kConsumers * 128>(1 + warpgroup); };
  const auto pass_turn = [&] { named_barrier_arrive<kConsumers * 128>(2 - warpgroup); };
  if (warpgroup == 1) pass_turn();  // 0 begins

  for (;; q_state.advance()) {
    q_state = q_state.uniform();
    const auto& q = s.q[q_state.stage];
    mbarrier_wait(&s.q_full[q_state.stage], q_state.parity);
    const int tile = ladder::uniform(s.tile[q_state.stage]);
    if (tile < 0) break;
    const TilePlace at = order.at(tile);
    const Head<T> head(a, at.head, at.sequence);
    const int row0 = at.tile * BM, first = row0 + warp * 16 + lane / 4;  // row of this thread
    const int end = ladder::uniform(head.template visible<Op>(row0 + BM - 1));
    const int seen_by_all = ladder::uniform(head.template visible<Op>(row0 + warpgroup * 64));
    SumCheckedRows rows(Op{}, head, first, a.scale);
    float acc[D / 2] = {}, scores[BN / 2], factor[2];
    using Weights = std::uint32_t[BN / 16][4];
    Weights even, odd;  // of K-tiles

    const auto multiply_k = [&](State of) {
      mbarrier_wait(&s.k_full[of.stage], of.parity);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < D / 16; ++i) {
        wgmma<BN, Major::k, Major::k, T>(scores, q.over_columns(warpgroup * 64, i),
                                         s.k[of.stage].over_columns(0, i), i > 0);
      }
      wgmma_commit_group();
    };
    const auto multiply_v = [&](State of, Weights& weights) {
      mbarrier_wait(&s.v_full[of.stage], of.parity);
      wgmma_fence(acc, weights);
#pragma unroll
      for (int i = 0; i < BN / 16; ++i) {
        wgmma<D, Major::mn, T>(acc, weights[i], s.v[of.stage].over_rows(i), true);
      }
      wgmma_commit_group();
    };
    const auto release_q = [&] {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(&s.q_empty[q_state.stage]);
    };

    if (end > 0) {
      state = state.uniform();
      take_turn();
      multiply_k(state);
      pass_turn();
      wgmma_wait_group<0>(scores);
      if (releases) mbarrier_arrive(&s.k_empty[state.stage]);
      rows.begin<T>(even, scores, BN > seen_by_all);
      state.advance();
      // Makes the weights of the next K-tile while those of the one before are multiplied.
      const auto go_on = [&](int key0, Weights& weights, Weights& weights_before) {
        state = state.uniform();
        const State before = state.before();
        take_turn();
        multiply_k(state);
        multiply_v(before, weights_before);
        pass_turn();
        wgmma_wait_group<1>(scores);  // the values are under way
        if (releases) mbarrier_arrive(&s.k_empty[state.stage]);
        const bool scales = rows.weigh<T>(weights, scores, key0, key0 + BN > seen_by_all, factor);
        wgmma_wait_group<0>(acc, weights_before);
        if (releases) mbarrier_arrive(&s.v_empty[before.stage]);
        if (scales) scale_rows(acc, factor);
        state.advance();
      };
      int key0 = BN;
      for (; key0 + BN < end; key0 += 2 * BN) {
        go_on(key0, odd, even);
        go_on(key0 + BN, even, odd);
      }
      const bool ends_odd = key0 < end;
      if (ends_odd) go_on(key0, odd, even);
      const State before = state.before();
      release_q();
      if (ends_odd) {
        multiply_v(before, odd);
      } else {
        multiply_v(before, even);
      }
      wgmma_wait_group<0>(acc, even, odd);
      if (releases) mbarrier_arrive(&s.v_empty[before.stage]);
    } else {
      release_q();
    }
    rows.store(head, first, acc);
  }
}

template <class Op>
struct NoMaximum {
  static constexpr ladder::Version version{"sums of weights tell when a maximum is needed"};
  // Blocks with more tiles that see no key, under a causal mask, than Q has stages
  static constexpr attention::Problem test_problems[] = {{4, 3, 3, 300, 40, 64}};

  template <class T>
  static std::size_t state(const attention::Args<T>&) {
    return sizeof(unsigned);
  }
  template <class T>
  static void launch(const attention::Args<T>& a, void* state, cudaStream_t stream) {
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      const TileOrder order(a, BM, Op::kCausal || a.query_starts);
      ladder::launch(attend<Op, T, D>, std::min(order.count(), ladder::sm_count()), kThreads,
                     kSharedBytes<Shared<T, D>>, stream, q_map(a, BM), kv_map(a, a.k, BN),
                     kv_map(a, a.v, BN), a, order, static_cast<unsigned*>(state));
    });
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<NoMaximum<attention>, attention, half, bfloat16> plain;
const ladder::Register<NoMaximum<attention_causal>, attention_causal, half, bfloat16> causal;

}  // namespace
