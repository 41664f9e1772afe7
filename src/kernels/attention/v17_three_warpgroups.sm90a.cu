// Idea      three warpgroups, of which one has its products on the tensor cores while the other two take
//           their exponentials: at head size 64 these take as long as the products
// Vs v16    no softmax under a warpgroup's own products, and no second set of weights: a warpgroup has
//           160 registers. Each multiplies only what its own queries see, and lets the rest pass by, as
//           192 queries lie further apart
// Bound by  the exponentials and power; with few K-tiles the first and last products of a tile of
//           queries, when the others wait for their turn as well
// Limits    head size 64, sequences of one length; compute capability 9.0a; 169 KiB of shared memory
// Tile      192 queries by 128 keys, 3 warpgroups of 64 queries; three stages of Q, of K and of V
//
//   warpgroup 0    products | softmax  | softmax  | products | softmax  | …
//   warpgroup 1    waits    | products | softmax  | softmax  | products | …
//   warpgroup 2    waits    | waits    | products | softmax  | softmax  | …
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

constexpr int kConsumers = 3, BM = kConsumers * 64, BN = 128, D = 64, kStages = 3;
constexpr int kThreads = (kConsumers + 1) * 128;
using State = ladder::PipelineState<kStages>;

template <class T>
struct Shared {
  Tile<T, BM, D> q[kStages];
  Tile<T, BN, D> k[kStages], v[kStages];
  Mbarrier q_full[kStages], k_full[kStages], v_full[kStages];
  Mbarrier q_empty[kStages], k_empty[kStages], v_empty[kStages];
  TilePlace place[kStages];  // whose Q is there; its tile is -1 behind the last
};

template <class Op, class T>
__global__ void __launch_bounds__(kThreads, 1)
    attend(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
           const __grid_constant__ CUtensorMap v_map, attention::Args<T> a, TileOrder order,
           unsigned* drawn) {
  auto& s = aligned_shared<Shared<T>>();
  const int warp = static_cast<int>(ladder::uniform(threadIdx.x / 32)), warpgroup = warp / 4;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
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
  if (warpgroup == kConsumers) {  // the producer warpgroup: setmaxnreg, one thread loads
    setmaxnreg_dec<32>();
    if (threadIdx.x != kConsumers * 128) return;
    TileQueue items(drawn, order);
    for (;; q_state.advance()) {
      const int item = items.next();
      Mbarrier* const q_full = &s.q_full[q_state.stage];
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      mbarrier_wait(&s.q_empty[q_state.stage], q_state.parity ^ 1);
      if (item >= order.count()) {
        s.place[q_state.stage] = {.tile = -1, .head = 0, .sequence = 0};
        mbarrier_arrive(q_full);
        return;
      }
      const TilePlace at = order.at(item);
      s.place[q_state.stage] = at;
      const Head<T> head(a, at.head, at.sequence);
      const int row0 = at.tile * BM, kv_head = at.head / (a.heads / a.kv_heads);
      const int end = head.template visible<Op>(row0 + BM - 1);  // what is seen at all
      auto& q = s.q[q_state.stage];
      mbarrier_arrive_expect_tx(q_full, q.kBytes);
      q.load(&q_map, row0, at.head, at.sequence, q_full);
      const auto load = [&](Tile<T, BN, D>& to, const CUtensorMap& map, int key0, Mbarrier* full,
                            Mbarrier* empty, unsigned parity) {
        mbarrier_wait(empty, parity ^ 1);
        mbarrier_arrive_expect_tx(full, to.kBytes);
        to.load(&map, key0, kv_head, at.sequence, full);
      };
      const auto load_k = [&](int key0) {
        const int stage = state.stage;
        load(s.k[stage], k_map, key0, &s.k_full[stage], &s.k_empty[stage], state.parity);
        state.advance();
      };
      // In the order in which they are multiplied: a K-tile's keys before the values of the one before.
      if (end > 0) load_k(0);
      for (int key0 = 0; key0 < end; key0 += BN) {
        const State of = state.before();
        if (key0 + BN < end) load_k(key0 + BN);
        load(s.v[of.stage], v_map, key0, &s.v_full[of.stage], &s.v_empty[of.stage], of.parity);
      }
    }
  }

  setmaxnreg_inc<160>();
  const bool releases = threadIdx.x % 128 == 0;
  // A turn is a named barrier: the one who waits for it, and the one before, who arrives.
  const int next = warpgroup < kConsumers - 1 ? warpgroup + 1 : 0;
  const auto take_turn = [&] { named_barrier_sync<2 * 128>(1 + warpgroup); };
  const auto pass_turn = [&] { named_barrier_arrive<2 * 128>(1 + next); };
  if (next == 0) pass_turn();  // 0 begins

  for (;; q_state.advance()) {
    q_state = q_state.uniform();
    const auto& q = s.q[q_state.stage];
    mbarrier_wait(&s.q_full[q_state.stage], q_state.parity);
    const TilePlace at = s.place[q_state.stage];
    if (at.tile < 0) break;
    const Head<T> head(a, at.head, at.sequence);
    const int row0 = at.tile * BM + warpgroup * 64;     // of the warpgroup
    const int first = row0 + warp % 4 * 16 + lane / 4;  // of this thread
    const int end = ladder::uniform(head.template visible<Op>(at.tile * BM + BM - 1));
    // What the warpgroup sees at all
    const int own_end =
        ladder::uniform(row0 < head.queries ? head.template visible<Op>(row0 + 63) : 0);
    const int seen_by_all = Op::kCausal ? own_end - 63 : own_end;  // at least
    SumCheckedRows rows(Op{}, head, first, a.scale);
    float acc[D / 2] = {}, scores[BN / 2], factor[2];
    std::uint32_t weights[BN / 16][4];

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
    const auto multiply_v = [&](State of) {
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

    int key0 = 0;
    if (own_end > 0) {
      state = state.uniform();
      take_turn();
      multiply_k(state);
      pass_turn();
      wgmma_wait_group<0>(scores);
      if (releases) mbarrier_arrive(&s.k_empty[state.stage]);
      rows.begin<T>(weights, scores, BN > seen_by_all);
      state.advance();
      for (key0 = BN; key0 < own_end; key0 += BN, state.advance()) {
        state = state.uniform();
        const State before = state.before();
        take_turn();
        multiply_k(state);
        multiply_v(before);
        pass_turn();
        wgmma_wait_group<1>(scores);
        if (releases) mbarrier_arrive(&s.k_empty[state.stage]);
        wgmma_wait_group<0>(acc, weights);
        if (releases) mbarrier_arrive(&s.v_empty[before.stage]);
        if (rows.weigh<T>(weights, scores, key0, key0 + BN > seen_by_all, factor)) {
          scale_rows(acc, factor);
        }
      }
      const State before = state.before();
      release_q();
      multiply_v(before);
      wgmma_wait_group<0>(acc, weights);
      if (releases) mbarrier_arrive(&s.v_empty[before.stage]);
    } else {
      release_q();
    }
    // What only others see. When its turn has come, they have read what the stage held before, so that
    // it arrives in the right phase.
    for (; key0 < end; key0 += BN, state.advance()) {
      take_turn();
      pass_turn();
      if (!releases) continue;
      mbarrier_arrive(&s.k_empty[state.stage]);
      mbarrier_arrive(&s.v_empty[state.stage]);
    }
    rows.store(head, first, acc);
  }
}

template <class Op>
struct ThreeWarpgroups {
  static constexpr ladder::Version version{"three warpgroups take turns, for head size 64"};
  // Warpgroups that see nothing, or less than the others, between those that do; stages filled again;
  // blocks with more tiles that see no key, under a causal mask, than Q has stages
  static constexpr attention::Problem test_problems[] = {
      {1, 2, 2, 200, 200, 64}, {1, 2, 1, 590, 1300, 64}, {4, 3, 3, 300, 40, 64}};

  template <class T>
  static std::size_t state(const attention::Args<T>&) {
    return sizeof(unsigned);
  }
  template <class T>
  static void launch(const attention::Args<T>& a, void* state, cudaStream_t stream) {
    const TileOrder order(a, BM, Op::kCausal);
    ladder::launch(attend<Op, T>, std::min(order.count(), ladder::sm_count()), kThreads,
                   kSharedBytes<Shared<T>>, stream, q_map(a, BM), kv_map(a, a.k, BN),
                   kv_map(a, a.v, BN), a, order, static_cast<unsigned*>(state));
  }
  static ladder::Support supports(const attention::Problem& p) {
    return p.d == D ? needs_equal_lengths(p) : ladder::unsupported("the head size is not 64");
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<ThreeWarpgroups<attention>, attention, half, bfloat16> plain;
const ladder::Register<ThreeWarpgroups<attention_causal>, attention_causal, half, bfloat16> causal;

}  // namespace
