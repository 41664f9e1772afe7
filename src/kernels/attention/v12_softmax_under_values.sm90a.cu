// Idea      the scores of a K-tile are multiplied before the values of the one before, and its softmax
//           is taken while those are under way (FlashAttention-3)
// Vs v11    the tensor cores multiply while this warpgroup takes exponentials; the price is a second
//           set of weights in registers, 32 of them
// Bound by  the scores, which nothing runs beside in the same warpgroup, and what two warpgroups
//           happen to do at the same time
// Limits    sequences of one length; compute capability 9.0a; 161 KiB of shared memory for head size
//           128
// Tile      128 queries by 128 keys, 2 warpgroups of 64 queries; two stages of K and of V
//
//   tensor cores   scores j | values j - 1            | scores j + 1 | values j …
//   the others     wait     | softmax j               | wait         | softmax j + 1
#include "bulk_tiles.hpp"
#include "device/pipeline_state.hpp"
#include "device/ptx/setmaxnreg.hpp"
#include "limits.hpp"
#include "online_rows.hpp"

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kConsumers = 2, BM = kConsumers * 64, BN = 128, kStages = 2;
constexpr int kThreads = (kConsumers + 1) * 128;

template <class T, int D>
struct Shared {
  Tile<T, BM, D> q;
  Tile<T, BN, D> k[kStages], v[kStages];
  Mbarrier q_full, k_full[kStages], v_full[kStages], k_empty[kStages], v_empty[kStages];
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    attend(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
           const __grid_constant__ CUtensorMap v_map, attention::Args<T> a) {
  auto& s = aligned_shared<Shared<T, D>>();
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const int tile = static_cast<int>(Op::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  const int row0 = tile * BM, warpgroup = threadIdx.x / 128;
  const int end = head.template visible<Op>(row0 + BM - 1);  // what is seen at all

  if (threadIdx.x == 0) {
    mbarrier_init(&s.q_full, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&s.k_full[stage], 1);
      mbarrier_init(&s.v_full[stage], 1);
      mbarrier_init(&s.k_empty[stage], kConsumers);
      mbarrier_init(&s.v_empty[stage], kConsumers);
    }
    fence_proxy_async();
  }
  __syncthreads();  // the mbarriers are initialised; the last block-wide barrier

  ladder::PipelineState<kStages> state;
  if (warpgroup == kConsumers) {  // the producer warpgroup: setmaxnreg, one thread issues
    setmaxnreg_dec<24>();
    if (threadIdx.x != kConsumers * 128 || end == 0) return;
    const int kv_head = static_cast<int>(blockIdx.y) / (a.heads / a.kv_heads);
    mbarrier_arrive_expect_tx(&s.q_full, s.q.kBytes);
    s.q.load(&q_map, row0, blockIdx.y, blockIdx.z, &s.q_full);
    const auto load = [&](Tile<T, BN, D>& to, const CUtensorMap& map, int key0, Mbarrier* full,
                          Mbarrier* empty) {
      // A new mbarrier reports the previous phase complete, so the first pass does not block.
      mbarrier_wait(empty, state.parity ^ 1);
      mbarrier_arrive_expect_tx(full, to.kBytes);
      to.load(&map, key0, kv_head, blockIdx.z, full);
    };
    for (int key0 = 0; key0 < end; key0 += BN, state.advance()) {
      const int stage = state.stage;
      load(s.k[stage], k_map, key0, &s.k_full[stage], &s.k_empty[stage]);
      load(s.v[stage], v_map, key0, &s.v_full[stage], &s.v_empty[stage]);
    }
    return;
  }

  setmaxnreg_inc<240>();
  const bool releases = threadIdx.x % 128 == 0;
  const int first = row0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // row of this thread
  const int seen_by_all = head.template visible<Op>(row0 + warpgroup * 64);
  OnlineRows rows(Op{}, head, first, a.scale);
  float acc[D / 2] = {}, scores[BN / 2], factor[2];
  std::uint32_t weights[BN / 16][4];

  const auto multiply_k = [&](int stage, unsigned parity) {
    mbarrier_wait(&s.k_full[stage], parity);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      wgmma<BN, Major::k, Major::k, T>(scores, s.q.over_columns(warpgroup * 64, i),
                                       s.k[stage].over_columns(0, i), i > 0);
    }
    wgmma_commit_group();
  };
  const auto multiply_v = [&](int stage, unsigned parity) {
    mbarrier_wait(&s.v_full[stage], parity);
    wgmma_fence(acc, weights);
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      wgmma<D, Major::mn, T>(acc, weights[i], s.v[stage].over_rows(i), true);
    }
    wgmma_commit_group();
  };

  if (end > 0) {
    mbarrier_wait(&s.q_full, 0);
    multiply_k(0, 0);
    wgmma_wait_group<0>(scores);
    if (releases) mbarrier_arrive(&s.k_empty[0]);
    rows.weigh(scores, 0, BN > seen_by_all, factor);
    pack_weights<T>(weights, scores);
    ladder::PipelineState<kStages> before = state;
    state.advance();
    for (int key0 = BN; key0 < end; key0 += BN, before = state, state.advance()) {
      multiply_k(state.stage, state.parity);
      multiply_v(before.stage, before.parity);
      wgmma_wait_group<1>(scores);  // the values are under way
      if (releases) mbarrier_arrive(&s.k_empty[state.stage]);
      rows.weigh(scores, key0, key0 + BN > seen_by_all, factor);
      wgmma_wait_group<0>(acc, weights);
      if (releases) mbarrier_arrive(&s.v_empty[before.stage]);
      scale_rows(acc, factor);
      pack_weights<T>(weights, scores);
    }
    multiply_v(before.stage, before.parity);
    wgmma_wait_group<0>(acc, weights);
  }
  rows.store(head, first, acc);
}

template <class Op>
struct SoftmaxUnderValues {
  static constexpr ladder::Version version{"softmax under the values of the K-tile before"};
  // Stages that were released in the loop are filled again
  static constexpr attention::Problem test_problems[] = {{1, 1, 1, 16, 400, 64}};

  template <class T>
  static void launch(const attention::Args<T>& a, cudaStream_t stream) {
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(attend<Op, T, D>, query_tiles(a, BM), kThreads, kSharedBytes<Shared<T, D>>,
                     stream, q_map(a, BM), kv_map(a, a.k, BN), kv_map(a, a.v, BN), a);
    });
  }
  static ladder::Support supports(const attention::Problem& p) { return needs_equal_lengths(p); }
};

using ladder::bfloat16;
const ladder::Register<SoftmaxUnderValues<attention>, attention, bfloat16> plain;
const ladder::Register<SoftmaxUnderValues<attention_causal>, attention_causal, bfloat16> causal;

}  // namespace
