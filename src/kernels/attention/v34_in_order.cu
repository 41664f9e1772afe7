// Idea      what tiles of keys add to dq they add by turns: for each tile of queries a counter says
//           whose turn it is, the first keys' first. A block that has added counts on, or back to 0
//           if it was the last: a store that releases its sums to whoever acquires the turn. As no
//           two blocks add at once, it takes no atomics
//
//             queries      0        1        2        3          each block goes through the queries
//             keys 0       adds     adds     adds     adds       from the first on: behind the first
//             keys 1                adds     adds     adds …     one the others follow, a tile apart,
//             keys 2                         adds     adds …     and wait no more
//
//           A block can only wait for such as have begun: which keys it has is no number of the grid,
//           which runs in any order, but the next one that is drawn from a counter
// Vs v33b   the same bits in every run. For it at each tile a trip to the L2 and back, a release, two
//           barriers, and the wait for whoever is late
// Bound by  latency: the trip and the release are beside no other work, with one block a multiprocessor
// Limits    compute capability 8.0; 107 KiB of shared memory for head size 128; in the workspace 4 bytes
//           for each element of dq
// Tile      128 keys by 64 queries, for head size 128 by 32, of which two are in flight; 8 warps of 16
//           keys, for dq of 16 queries and 32 columns
#include "backward_head.hpp"
#include "backward_launchers.hpp"
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/memory_order.hpp"
#include "device/ptx/mma.hpp"
#include "limits.hpp"
#include "padded_tile.hpp"
#include "swizzled_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kThreads = 256, BN = kThreads / 32 * 16;

/// Queries that are read at once: the sums of dk and dv take 128 registers for head size 128.
template <int D>
constexpr int kQueries = D == 64 ? 64 : 32;

template <class T, int D>
struct Queries {
  SwizzledTile<T, kQueries<D>, D> q, d_o;
  alignas(16) float lse[kQueries<D>], delta[kQueries<D>];
};
template <class T, int D>
struct Shared {
  SwizzledTile<T, BN, D> k, v;
  Queries<T, D> queries[2];
  PaddedTile<T, BN, kQueries<D>> ds;
  unsigned number;  // of this block, as they began
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    make_gradients(attention_backward::Args<T> a, const float* deltas, float* dq_sums,
                   unsigned* blocks_begun, unsigned* turns) {
  constexpr int BM = kQueries<D>, kColumns = D * (BM / 16) / (kThreads / 32);
  auto& s = *ladder::dynamic_shared<Shared<T, D>>();
  const unsigned last_number = gridDim.x * gridDim.y * gridDim.z - 1;  // behind it comes 0 again
  if (threadIdx.x == 0) s.number = atomicInc(blocks_begun, last_number);
  __syncthreads();
  // As this block's index would be in a grid that begins in order.
  const unsigned line = s.number / gridDim.x;
  const dim3 block(s.number % gridDim.x, line % gridDim.y, line / gridDim.y);
  const int group = a.heads / a.kv_heads, first_head = static_cast<int>(block.y) * group;
  const BackwardHead<T> first(a, first_head, block.z);
  first.clear_unused_keys(D, block.x);
  const int key0 = static_cast<int>(block.x) * BN, warp_key = threadIdx.x / 32 * 16,
            lane = threadIdx.x % 32;
  if (key0 >= first.keys) return;
  s.k.template copy<kThreads>(first.k + key0 * first.k_pitch, first.k_pitch, first.keys - key0);
  s.v.template copy<kThreads>(first.v + key0 * first.k_pitch, first.k_pitch, first.keys - key0);

  // The first query that sees a key of the tile; from there on the tiles of all heads of the group.
  const int begin = Op::kCausal ? max(0, key0 - first.diagonal) / BM * BM : 0;
  const int tiles = max(0, ladder::ceil_div(first.queries - begin, BM)), count = group * tiles;
  const auto copy = [&](int number) {
    const BackwardHead<T> head(a, first_head + number / tiles, block.z);
    const int row0 = begin + number % tiles * BM;
    Queries<T, D>& to = s.queries[number % 2];
    const std::int64_t at = row0 * head.q_pitch;
    to.q.template copy<kThreads>(head.q + at, head.q_pitch, head.queries - row0);
    to.d_o.template copy<kThreads>(head.d_o + at, head.q_pitch, head.queries - row0);
    const int i = threadIdx.x % BM, bytes = row0 + i < head.queries ? 4 : 0;
    const int row = bytes > 0 ? row0 + i : row0;
    if (threadIdx.x < BM) {
      cp_async<4>(&to.lse[i], head.lse + row, bytes);
    } else if (threadIdx.x < 2 * BM) {
      cp_async<4>(&to.delta[i], deltas + head.first_row + row, bytes);
    }
  };
  if (count > 0) copy(0);

  const int key = key0 + warp_key + lane / 4;  // and the one 8 behind it
  const float scale = a.scale * kLog2E;
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};

  for (int number = 0; number < count; ++number) {
    const BackwardHead<T> head(a, first_head + number / tiles, block.z);
    const int row0 = begin + number % tiles * BM;
    Queries<T, D>& of = s.queries[number % 2];
    cp_async_wait_all();
    __syncthreads();  // the tile is there, and all that was made of the one before is read
    if (number + 1 < count) copy(number + 1);

    float p[BM / 8][4] = {}, ds[BM / 8][4] = {};  // first scores and the gradients of weights
#pragma unroll
    for (int i = 0; i < D / 8; i += 2) {
      std::uint32_t k[4], v[4];
      s.k.fragment_a(k, warp_key, i, lane);
      s.v.fragment_a(v, warp_key, i, lane);
#pragma unroll
      for (int j = 0; j < BM / 16; ++j) {
        std::uint32_t q[4], d_o[4];
        of.q.fragments_b(q, j * 16, i, lane);
        of.d_o.fragments_b(d_o, j * 16, i, lane);
        mma_m16n8k16<T>(p[j * 2], k, {q[0], q[1]}, p[j * 2]);
        mma_m16n8k16<T>(p[j * 2 + 1], k, {q[2], q[3]}, p[j * 2 + 1]);
        mma_m16n8k16<T>(ds[j * 2], v, {d_o[0], d_o[1]}, ds[j * 2]);
        mma_m16n8k16<T>(ds[j * 2 + 1], v, {d_o[2], d_o[3]}, ds[j * 2 + 1]);
      }
    }
    const bool is_masked = key0 + BN > head.template visible<Op>(row0);
#pragma unroll
    for (int j = 0; j < BM / 8; ++j) {
      const int column = j * 8 + lane % 4 * 2;
      const float2 lse = *reinterpret_cast<const float2*>(&of.lse[column]);
      const float2 delta = *reinterpret_cast<const float2*>(&of.delta[column]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int seen = head.template visible<Op>(row0 + column + e % 2);
        p[j][e] = exp2_approx(fmaf(p[j][e], scale, -kLog2E * (e % 2 == 0 ? lse.x : lse.y)));
        if (is_masked && key + e / 2 * 8 >= seen) p[j][e] = 0;
        ds[j][e] = p[j][e] * (ds[j][e] - (e % 2 == 0 ? delta.x : delta.y));
      }
    }
#pragma unroll
    for (int i = 0; i < BM / 16; ++i) {
      std::uint32_t weights[4], gradients[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const auto &of_p = p[i * 2 + w / 2], &of_ds = ds[i * 2 + w / 2];
        weights[w] = ladder::pack<T>(of_p[w % 2 * 2], of_p[w % 2 * 2 + 1]);
        gradients[w] = ladder::pack<T>(of_ds[w % 2 * 2], of_ds[w % 2 * 2 + 1]);
        T* const to = s.ds.at(warp_key + lane / 4 + w % 2 * 8, i * 16 + w / 2 * 8 + lane % 4 * 2);
        *reinterpret_cast<std::uint32_t*>(to) = gradients[w];
      }
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t q[4], d_o[4];
        of.d_o.fragments_b_trans(d_o, i * 16, j * 2, lane);
        mma_m16n8k16<T>(dv[j * 2], weights, {d_o[0], d_o[1]}, dv[j * 2]);
        mma_m16n8k16<T>(dv[j * 2 + 1], weights, {d_o[2], d_o[3]}, dv[j * 2 + 1]);
        of.q.fragments_b_trans(q, i * 16, j * 2, lane);
        mma_m16n8k16<T>(dk[j * 2], gradients, {q[0], q[1]}, dk[j * 2]);
        mma_m16n8k16<T>(dk[j * 2 + 1], gradients, {q[2], q[3]}, dk[j * 2 + 1]);
      }
    }

    // A warp has 16 queries of dq, and 32 columns.
    __syncthreads();
    const int dq_row = threadIdx.x / 32 % (BM / 16) * 16;
    const int dq_column = static_cast<int>(threadIdx.x) / 32 / (BM / 16) * kColumns;
    float dq[kColumns / 8][4] = {};
#pragma unroll
    for (int i = 0; i < BN; i += 16) {
      std::uint32_t left[4];
      s.ds.fragment_a_trans(left, i, dq_row, lane);
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        std::uint32_t k[4];
        s.k.fragments_b_trans(k, i, dq_column / 8 + j * 2, lane);
        mma_m16n8k16<T>(dq[j * 2], left, {k[0], k[1]}, dq[j * 2]);
        mma_m16n8k16<T>(dq[j * 2 + 1], left, {k[2], k[3]}, dq[j * 2 + 1]);
      }
    }

    // Those of earlier keys have added, all of them, before this block adds. The turn is that of a tile
    // of queries, one of which each sequence of each head begins, however long those before it are.
    const std::int64_t sequences = std::int64_t{first_head + number / tiles} * a.batch + block.z;
    unsigned* const turn = turns + sequences + (head.first_row + row0) / BM;
    if (threadIdx.x == 0) {
      while (load_acquire<Scope::gpu>(turn) != block.x) {
      }
    }
    __syncthreads();
    // Both go to the L2: another multiprocessor's sums are not in this one's L1.
    float2 sums[2][kColumns / 8] = {};
    float* const to = dq_sums + head.first_row * D + dq_column + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + dq_row + half * 8 + lane / 4;
      if (row >= head.queries) continue;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        sums[half][j] = __ldcg(reinterpret_cast<const float2*>(to + std::int64_t{row} * D + j * 8));
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + dq_row + half * 8 + lane / 4;
      if (row >= head.queries) continue;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        __stcg(
            reinterpret_cast<float2*>(to + std::int64_t{row} * D + j * 8),
            make_float2(sums[half][j].x + dq[j][half * 2], sums[half][j].y + dq[j][half * 2 + 1]));
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      // None of these queries sees the next tile of keys, or there is none.
      const bool is_last_turn = head.template visible<Op>(row0 + BM - 1) <= key0 + BN;
      store_release<Scope::gpu>(turn, is_last_turn ? 0 : block.x + 1);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = key + half * 8;
    if (row >= first.keys) continue;
    const std::int64_t at = row * first.k_pitch + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const auto &of_k = dk[j], &of_v = dv[j];
      *reinterpret_cast<std::uint32_t*>(first.dk + at + j * 8) =
          ladder::pack<T>(of_k[half * 2] * a.scale, of_k[half * 2 + 1] * a.scale);
      *reinterpret_cast<std::uint32_t*>(first.dv + at + j * 8) =
          ladder::pack<T>(of_v[half * 2], of_v[half * 2 + 1]);
    }
  }
}

template <class Op>
struct InOrder {
  static constexpr ladder::Version version{"dq added in order"};

  // Three tiles of keys; under a causal mask the last one begins late.
  static constexpr attention::Problem test_problems[] = {{1, 2, 1, 70, 260, 64}};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return sizeof(float) * static_cast<std::size_t>(a.heads * a.all_queries * (a.d + 1));
  }
  /// How many blocks have begun, and whose turn it is at each tile of queries.
  template <class T>
  static std::size_t state(const attention_backward::Args<T>& a) {
    const int rows = a.d == 64 ? kQueries<64> : kQueries<128>;
    const std::int64_t tiles = a.heads * a.all_queries / rows + std::int64_t{a.heads} * a.batch;
    return sizeof(unsigned) * static_cast<std::size_t>(1 + tiles);
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, void* state, cudaStream_t stream) {
    const std::int64_t rows = a.heads * a.all_queries;
    auto* const dq_sums = static_cast<float*>(a.workspace);
    float* const delta = dq_sums + rows * a.d;
    auto *const blocks_begun = static_cast<unsigned*>(state), *const turns = blocks_begun + 1;
    ladder::fill_async(dq_sums, 0, sizeof(float) * static_cast<std::size_t>(rows * a.d), stream);
    attention_backward_parts::launch_delta(a, delta, stream);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(make_gradients<Op, T, D>, key_tiles(a, BN), kThreads, sizeof(Shared<T, D>),
                     stream, a, delta, dq_sums, blocks_begun, turns);
    });
    attention_backward_parts::launch_round_dq(a, dq_sums, stream);
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support memory =
        needs_shared_memory(p.d == 64 ? sizeof(Shared<T, 64>) : sizeof(Shared<T, 128>));
    return memory.ok ? needs_compute_capability(80) : memory;
  }
};

using Plain = attention_backward;
using Causal = attention_causal_backward;
using ladder::bfloat16;
using ladder::half;
const ladder::Register<InOrder<Plain>, Plain, half, bfloat16> plain;
const ladder::Register<InOrder<Causal>, Causal, half, bfloat16> causal;

}  // namespace
