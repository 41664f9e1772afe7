// Idea      Hopper's way in and its products: TMA brings tiles of 128 rows, wgmma multiplies two
//           warpgroups' 64 queries with them, and takes the weights from the registers
// Vs v08    no thread copies, and no fragment of K or V goes through registers. What overlaps is as
//           before: V is on its way during the scores, the next K during the values
// Bound by  waiting: both warpgroups multiply at the same time, and at the same time take exponentials,
//           during which the tensor cores have nothing to do
// Limits    sequences of one length; compute capability 9.0a; 97 KiB of shared memory for head size
//           128
// Tile      128 queries by 128 keys, 2 warpgroups of 64 queries
#include "bulk_tiles.hpp"
#include "limits.hpp"
#include "online_rows.hpp"

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kWarpgroups = 2, BM = kWarpgroups * 64, BN = 128, kThreads = kWarpgroups * 128;

template <class T, int D>
struct Shared {
  Tile<T, BM, D> q;
  Tile<T, BN, D> k, v;
  Mbarrier q_full, k_full, v_full;
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    attend(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
           const __grid_constant__ CUtensorMap v_map, attention::Args<T> a) {
  auto& s = aligned_shared<Shared<T, D>>();
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const int tile = static_cast<int>(Op::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y) / (a.heads / a.kv_heads);
  const int row0 = tile * BM, warpgroup = threadIdx.x / 128;
  const int first = row0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // row of this thread
  const int end = head.template visible<Op>(row0 + BM - 1);               // what is seen at all
  const int seen_by_all = head.template visible<Op>(row0 + warpgroup * 64);

  const auto load = [&](Tile<T, BN, D>& to, const CUtensorMap& map, int key0, Mbarrier* full) {
    mbarrier_arrive_expect_tx(full, to.kBytes);
    to.load(&map, key0, kv_head, blockIdx.z, full);
  };
  if (threadIdx.x == 0) {
    mbarrier_init(&s.q_full, 1);
    mbarrier_init(&s.k_full, 1);
    mbarrier_init(&s.v_full, 1);
    fence_proxy_async();
    if (end > 0) {
      mbarrier_arrive_expect_tx(&s.q_full, s.q.kBytes);
      s.q.load(&q_map, row0, blockIdx.y, blockIdx.z, &s.q_full);
      load(s.k, k_map, 0, &s.k_full);
    }
  }
  __syncthreads();

  OnlineRows rows(Op{}, head, first, a.scale);
  float acc[D / 2] = {};
  if (end > 0) mbarrier_wait(&s.q_full, 0);
  for (int key0 = 0; key0 < end; key0 += BN) {
    const unsigned parity = key0 / BN % 2;
    if (threadIdx.x == 0) load(s.v, v_map, key0, &s.v_full);

    float scores[BN / 2];
    mbarrier_wait(&s.k_full, parity);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      wgmma<BN, Major::k, Major::k, T>(scores, s.q.over_columns(warpgroup * 64, i),
                                       s.k.over_columns(0, i), i > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>(scores);
    __syncthreads();  // K is read
    if (threadIdx.x == 0 && key0 + BN < end) load(s.k, k_map, key0 + BN, &s.k_full);

    float factor[2];
    rows.weigh(scores, key0, key0 + BN > seen_by_all, factor);
    scale_rows(acc, factor);
    std::uint32_t weights[BN / 16][4];
    pack_weights<T>(weights, scores);

    mbarrier_wait(&s.v_full, parity);
    wgmma_fence(acc, weights);
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      wgmma<D, Major::mn, T>(acc, weights[i], s.v.over_rows(i), true);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>(acc, weights);
    __syncthreads();  // V is read
  }
  rows.store(head, first, acc);
}

template <class Op>
struct Wgmma {
  static constexpr ladder::Version version{"TMA and wgmma"};

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
const ladder::Register<Wgmma<attention>, attention, bfloat16> plain;
const ladder::Register<Wgmma<attention_causal>, attention_causal, bfloat16> causal;

}  // namespace
