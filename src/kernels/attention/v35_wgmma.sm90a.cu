// Idea      Hopper's way in and its products: TMA brings tiles of queries, and two warpgroups of 64
//           keys each make all five products by wgmma
//
//             scores, their weights' gradients    keys by queries: a warpgroup's K and V are the left
//                                                 operands, Q and d_o the right ones
//             dv, dk                              what was made of them is the left operand, in
//                                                 registers; d_o and Q again the right one, read the
//                                                 other way
//             dq                                  over shared memory: the left operand is read the
//                                                 other way, and is of both warpgroups' keys
//
// Vs v33b   no fragment of Q, d_o, K or V goes through registers, which is room for 64 queries
//           where there were 32. What a warpgroup adds to dq lies in the workspace as it lies in
//           registers, so an atomic operation adds 16 bytes a thread, and a warp's are neighbours
// Bound by  waiting: both warpgroups multiply at the same time, and then both take exponentials
// Limits    compute capability 9.0a; 146 KiB of shared memory for head size 128; in the workspace 4
//           bytes for each element of dq
// Tile      128 keys by 64 queries, for head size 64 by 128; 2 warpgroups of 64 keys, for dq of 64
//           columns, for head size 64 of 64 queries
#include "backward_tiles.hpp"

namespace {

using namespace attention_tiles;
using namespace ladder::ptx;

constexpr int kWarpgroups = 2, BN = kWarpgroups * 64, kThreads = kWarpgroups * 128;

template <class T, int D>
struct Shared {
  Tile<T, BN, D> k, v;
  Tile<T, kQueries<D>, D> q[2], d_o[2];
  Tile<T, BN, kQueries<D>> ds;
  Rows<D> rows[2];
  Mbarrier kv_full, full[2];
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
  const int key0 = blockIdx.x * BN;
  if (key0 >= head.keys) return;

  // The first query that sees a key of the tile; from there on the tiles of all heads of the group.
  const int begin = Op::kCausal ? max(0, key0 - head.diagonal) / BM * BM : 0;
  const int of_head = max(0, ladder::ceil_div(head.queries - begin, BM)), count = group * of_head;
  const std::int64_t first_tile = tiles.first(a, first_head, blockIdx.z) + begin / BM;
  const auto tile_of = [&](int number) {
    return first_tile + number / of_head * tiles.of_head + number % of_head;
  };

  const MapPlace at(a, blockIdx.z);
  const auto load = [&](int number) {
    const int stage = number % 2, row = at.query + begin + number % of_head * BM;
    const int own_head = first_head + number / of_head;
    mbarrier_arrive_expect_tx(&s.full[stage], 2 * s.q[0].kBytes + sizeof(Rows<D>));
    s.q[stage].load(&q_map, row, own_head, at.sequence, &s.full[stage]);
    s.d_o[stage].load(&d_o_map, row, own_head, at.sequence, &s.full[stage]);
    bulk_load(&s.rows[stage], tiles.rows_of(tile_of(number)), sizeof(Rows<D>), &s.full[stage]);
  };
  if (threadIdx.x == 0) {
    mbarrier_init(&s.kv_full, 1);
    mbarrier_init(&s.full[0], 1);
    mbarrier_init(&s.full[1], 1);
    fence_proxy_async();
    if (count > 0) {
      mbarrier_arrive_expect_tx(&s.kv_full, 2 * s.k.kBytes);
      s.k.load(&k_map, at.key + key0, blockIdx.y, at.sequence, &s.kv_full);
      s.v.load(&v_map, at.key + key0, blockIdx.y, at.sequence, &s.kv_full);
      load(0);
    }
  }
  __syncthreads();
  if (count > 0) {
    mbarrier_wait(&s.kv_full, 0);
    s.k.template clear_behind<kThreads>(head.keys - key0);
    s.v.template clear_behind<kThreads>(head.keys - key0);
  }

  const int warpgroup = threadIdx.x / 128;
  const int key = key0 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // and the one 8 behind it
  float dk[D / 2] = {}, dv[D / 2] = {};
  for (int number = 0; number < count; ++number) {
    const int stage = number % 2, row0 = begin + number % of_head * BM;
    const auto seen = [&](int query) { return head.template visible<Op>(row0 + query); };
    auto &q = s.q[stage], &d_o = s.d_o[stage];
    mbarrier_wait(&s.full[stage], number / 2 % 2);
    q.template clear_behind<kThreads>(head.queries - row0);
    d_o.template clear_behind<kThreads>(head.queries - row0);
    __syncthreads();  // all that was made of the tile before is read
    if (threadIdx.x == 0 && number + 1 < count) load(number + 1);

    float p[BM / 2], ds[BM / 2];  // first scores and the gradients of weights
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      wgmma<BM, Major::k, Major::k, T>(p, s.k.over_columns(warpgroup * 64, i), q.over_columns(0, i),
                                       i > 0);
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
    __syncthreads();  // the gradients of all keys are there
    float dq[kDqSums / 128];
    const int dq_rows = D == 64 ? warpgroup : 0, dq_columns = D == 64 ? 0 : warpgroup;
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      wgmma<64, Major::mn, Major::mn, T>(dq, s.ds.over_rows(i, dq_rows),
                                         s.k.over_rows(i, dq_columns), i > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>(dv, dk, dq, weights, gradients);
    float4* const sums = tiles.sums_of(tile_of(number), warpgroup) + threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < kDqSums / 128; i += 4) {
      atomicAdd(sums + i / 4 * 128, make_float4(dq[i], dq[i + 1], dq[i + 2], dq[i + 3]));
    }
  }
  store_rows(head.dk, head.k_pitch, key, head.keys, dk, a.scale);
  store_rows(head.dv, head.k_pitch, key, head.keys, dv, 1);
}

/// A lane has 16 bytes of two rows.
constexpr int kRowThreads = 128, kRowsAtOnce = 2;

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    make_rows(attention_backward::Args<T> a, QueryTiles tiles) {
  using Vec = ladder::Vec128<T>;
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  const int lanes = a.d / Vec::size, lane = threadIdx.x % lanes, step = kRowThreads / lanes;
  const std::int64_t first_tile = tiles.first(a, blockIdx.y, blockIdx.z);
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) {
    const int query = (blockIdx.x * kRowsAtOnce + i) * step + threadIdx.x / lanes;
    if (query >= ladder::ceil_div(head.queries, tiles.tile_rows) * tiles.tile_rows) return;
    float delta = 0, lse = INFINITY;
    if (query < head.queries) {
      const std::int64_t at = query * head.q_pitch + lane * Vec::size;
      const Vec o = Vec::load(head.o + at), d_o = Vec::load(head.d_o + at);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        delta += static_cast<float>(o[e]) * static_cast<float>(d_o[e]);
      }
      if (head.lse[query] > -INFINITY) lse = head.lse[query] * kLog2E;
    }
    for (int by = lanes / 2; by > 0; by /= 2) delta += __shfl_xor_sync(0xffffffff, delta, by);
    if (lane > 0) continue;
    float* const to = tiles.rows_of(first_tile + query / tiles.tile_rows) + query % tiles.tile_rows;
    to[0] = lse;
    to[tiles.tile_rows] = delta;
  }
}

/// A block has one warpgroup's sums.
template <class T>
__global__ void __launch_bounds__(128) round_dq(attention_backward::Args<T> a, QueryTiles tiles) {
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  const int tile = blockIdx.x / 2, part = blockIdx.x % 2;
  const int row = tile * tiles.tile_rows + (a.d == 64 ? part * 64 : 0) + threadIdx.x / 32 * 16 +
                  threadIdx.x % 32 / 4;
  if (tile * tiles.tile_rows >= head.queries) return;
  const float4* const sums =
      tiles.sums_of(tiles.first(a, blockIdx.y, blockIdx.z) + tile, part) + threadIdx.x;
  float dq[kDqSums / 128];
#pragma unroll
  for (int i = 0; i < kDqSums / 128; i += 4) {
    const float4 sum = sums[i / 4 * 128];
    dq[i] = sum.x;
    dq[i + 1] = sum.y;
    dq[i + 2] = sum.z;
    dq[i + 3] = sum.w;
  }
  store_rows(head.dq + (a.d == 64 ? 0 : part * 64), head.q_pitch, row, head.queries, dq, a.scale);
}

template <class Op>
struct Wgmma {
  static constexpr ladder::Version version{.idea = "TMA and wgmma, dq by atomics",
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
const ladder::Register<Wgmma<Plain>, Plain, bfloat16> plain;
const ladder::Register<Wgmma<Causal>, Causal, bfloat16> causal;

}  // namespace

namespace attention_backward_parts {

template <class T>
void launch_rows(const attention_backward::Args<T>& a, const QueryTiles& tiles,
                 cudaStream_t stream) {
  const int rows = ladder::ceil_div(a.queries, tiles.tile_rows) * tiles.tile_rows;
  const int of_block = kRowsAtOnce * kRowThreads * ladder::Vec128<T>::size / a.d;
  ladder::launch(make_rows<T>, dim3(ladder::ceil_div(rows, of_block), a.heads, a.batch),
                 kRowThreads, 0, stream, a, tiles);
}
template void launch_rows(const attention_backward::Args<ladder::half>&, const QueryTiles&,
                          cudaStream_t);
template void launch_rows(const attention_backward::Args<bfloat16>&, const QueryTiles&,
                          cudaStream_t);

template <class T>
void launch_round_dq(const attention_backward::Args<T>& a, const QueryTiles& tiles,
                     cudaStream_t stream) {
  const int parts = 2 * ladder::ceil_div(a.queries, tiles.tile_rows);
  ladder::launch(round_dq<T>, dim3(parts, a.heads, a.batch), 128, 0, stream, a, tiles);
}
template void launch_round_dq(const attention_backward::Args<ladder::half>&, const QueryTiles&,
                              cudaStream_t);
template void launch_round_dq(const attention_backward::Args<bfloat16>&, const QueryTiles&,
                              cudaStream_t);

}  // namespace attention_backward_parts
