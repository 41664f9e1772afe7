// Idea      nothing of queries times keys is stored: with the log-sum-exp a weight is made of its
//           score again wherever it is needed. And delta is d_o . o, a product of two rows, so that
//           no row of weights has to be complete before a gradient of its scores is made
//
//             dq        a block has queries, and goes through the keys
//             dk, dv    a block has keys, and goes through the queries of all heads that share them;
//                       its scores are transposed, keys by queries, so that what a lane has of them
//                       is the left operand of the products with q and d_o
//
// Vs v30    on tensor cores, with tiles in shared memory; 4 bytes for each query in the workspace. Each
//           result is one block's sum in a fixed order: the same bits in every run. Tiles that nobody
//           sees are skipped
// Bound by  products: seven, where five would do, since scores and gradients of weights are made twice
// Limits    compute capability 8.0; 68 KiB of shared memory for head size 128
// Tile      dq: 64 queries by 64 keys, 4 warps of 16 queries; dk and dv: 64 keys by 64 queries, for head
//           size 128 by 32, 4 warps of 16 keys
#include "backward_head.hpp"
#include "backward_launchers.hpp"
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "limits.hpp"
#include "padded_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kThreads = 128, kOwn = kThreads / 32 * 16;  // rows that a block has the gradients of

/// A warp has a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    make_delta(attention_backward::Args<T> a, float* delta) {
  const int query = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  if (query >= head.queries) return;
  const T* const o = head.o + query * head.q_pitch;
  const T* const d_o = head.d_o + query * head.q_pitch;
  float sum = 0;
  for (int i = lane * 2; i < a.d; i += 64) {
    const float2 x = ladder::unpack<T>(*reinterpret_cast<const std::uint32_t*>(o + i));
    const float2 y = ladder::unpack<T>(*reinterpret_cast<const std::uint32_t*>(d_o + i));
    sum += x.x * y.x + x.y * y.y;
  }
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffff, sum, i);
  if (lane == 0) delta[head.first_row + query] = sum;
}

template <class T, int D>
struct SharedOfQueries {
  PaddedTile<T, kOwn, D> q, d_o;
  PaddedTile<T, 64, D> k, v;
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    make_dq(attention_backward::Args<T> a, const float* deltas) {
  constexpr int BN = 64;
  auto& s = *ladder::dynamic_shared<SharedOfQueries<T, D>>();
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  // Longest first.
  const int tile = static_cast<int>(Op::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  const int row0 = tile * kOwn, warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  if (row0 >= head.queries) return;
  s.q.load(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
  s.d_o.load(head.d_o + row0 * head.q_pitch, head.q_pitch, head.queries - row0);

  // A lane has two rows.
  const int query = row0 + warp_row + lane / 4;
  const float scale = a.scale * kLog2E;
  float lse[2] = {}, delta[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (query + half * 8 >= head.queries) continue;
    lse[half] = head.lse[query + half * 8] * kLog2E;
    delta[half] = deltas[head.first_row + query + half * 8];
  }
  float dq[D / 8][4] = {};

  const int seen_by_all = head.template visible<Op>(row0);
  const int end = head.template visible<Op>(row0 + kOwn - 1);  // what is seen at all
  for (int key0 = 0; key0 < end; key0 += BN) {
    __syncthreads();
    s.k.load(head.k + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
    s.v.load(head.v + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
    __syncthreads();

    float p[BN / 8][4] = {}, ds[BN / 8][4] = {};  // first scores and the gradients of weights
#pragma unroll
    for (int i = 0; i < D; i += 16) {
      std::uint32_t q[4], d_o[4];
      s.q.fragment_a(q, warp_row, i, lane);
      s.d_o.fragment_a(d_o, warp_row, i, lane);
#pragma unroll
      for (int j = 0; j < BN / 16; ++j) {
        std::uint32_t k[4], v[4];
        s.k.fragments_b(k, j * 16, i, lane);
        s.v.fragments_b(v, j * 16, i, lane);
        mma_m16n8k16<T>(p[j * 2], q, {k[0], k[1]}, p[j * 2]);
        mma_m16n8k16<T>(p[j * 2 + 1], q, {k[2], k[3]}, p[j * 2 + 1]);
        mma_m16n8k16<T>(ds[j * 2], d_o, {v[0], v[1]}, ds[j * 2]);
        mma_m16n8k16<T>(ds[j * 2 + 1], d_o, {v[2], v[3]}, ds[j * 2 + 1]);
      }
    }
    const bool is_masked = key0 + BN > seen_by_all;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int seen = head.template visible<Op>(query + half * 8);
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          float weight = exp2_approx(fmaf(p[j][e], scale, -lse[half]));
          if (is_masked && key0 + j * 8 + lane % 4 * 2 + e % 2 >= seen) weight = 0;
          ds[j][e] = weight * (ds[j][e] - delta[half]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      const std::uint32_t left[] = {ladder::pack<T>(ds[i * 2][0], ds[i * 2][1]),
                                    ladder::pack<T>(ds[i * 2][2], ds[i * 2][3]),
                                    ladder::pack<T>(ds[i * 2 + 1][0], ds[i * 2 + 1][1]),
                                    ladder::pack<T>(ds[i * 2 + 1][2], ds[i * 2 + 1][3])};
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t k[4];
        s.k.fragments_b_trans(k, i * 16, j * 16, lane);
        mma_m16n8k16<T>(dq[j * 2], left, {k[0], k[1]}, dq[j * 2]);
        mma_m16n8k16<T>(dq[j * 2 + 1], left, {k[2], k[3]}, dq[j * 2 + 1]);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + half * 8;
    if (row >= head.queries) continue;
    T* const to = head.dq + row * head.q_pitch + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      *reinterpret_cast<std::uint32_t*>(to + j * 8) =
          ladder::pack<T>(dq[j][half * 2] * a.scale, dq[j][half * 2 + 1] * a.scale);
    }
  }
}

/// Queries that are read at once: the sums of dk and dv take 128 registers for head size 128.
template <int D>
constexpr int kQueries = D == 64 ? 64 : 32;

template <class T, int D>
struct SharedOfKeys {
  PaddedTile<T, kOwn, D> k, v;
  PaddedTile<T, kQueries<D>, D> q, d_o;
  alignas(8) float lse[kQueries<D>], delta[kQueries<D>];
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    make_dk_dv(attention_backward::Args<T> a, const float* deltas) {
  constexpr int BM = kQueries<D>;
  auto& s = *ladder::dynamic_shared<SharedOfKeys<T, D>>();
  const int group = a.heads / a.kv_heads, first_head = blockIdx.y * group;
  const BackwardHead<T> first(a, first_head, blockIdx.z);
  first.clear_unused_keys(D, blockIdx.x);
  const int key0 = blockIdx.x * kOwn, warp_key = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  if (key0 >= first.keys) return;
  s.k.load(first.k + key0 * first.k_pitch, first.k_pitch, first.keys - key0);
  s.v.load(first.v + key0 * first.k_pitch, first.k_pitch, first.keys - key0);

  const int key = key0 + warp_key + lane / 4;  // and the one 8 behind it
  const float scale = a.scale * kLog2E;
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};

  // The first query that sees a key of the tile.
  const int begin = Op::kCausal ? max(0, key0 - first.diagonal) / BM * BM : 0;
  for (int h = first_head; h < first_head + group; ++h) {
    const BackwardHead<T> head(a, h, blockIdx.z);
    for (int row0 = begin; row0 < head.queries; row0 += BM) {
      __syncthreads();
      s.q.load(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
      s.d_o.load(head.d_o + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
      for (int i = threadIdx.x; i < BM; i += kThreads) {
        const bool exists = row0 + i < head.queries;
        s.lse[i] = exists ? head.lse[row0 + i] * kLog2E : 0;
        s.delta[i] = exists ? deltas[head.first_row + row0 + i] : 0;
      }
      __syncthreads();

      float p[BM / 8][4] = {}, ds[BM / 8][4] = {};  // first scores and the gradients of weights
#pragma unroll
      for (int i = 0; i < D; i += 16) {
        std::uint32_t k[4], v[4];
        s.k.fragment_a(k, warp_key, i, lane);
        s.v.fragment_a(v, warp_key, i, lane);
#pragma unroll
        for (int j = 0; j < BM / 16; ++j) {
          std::uint32_t q[4], d_o[4];
          s.q.fragments_b(q, j * 16, i, lane);
          s.d_o.fragments_b(d_o, j * 16, i, lane);
          mma_m16n8k16<T>(p[j * 2], k, {q[0], q[1]}, p[j * 2]);
          mma_m16n8k16<T>(p[j * 2 + 1], k, {q[2], q[3]}, p[j * 2 + 1]);
          mma_m16n8k16<T>(ds[j * 2], v, {d_o[0], d_o[1]}, ds[j * 2]);
          mma_m16n8k16<T>(ds[j * 2 + 1], v, {d_o[2], d_o[3]}, ds[j * 2 + 1]);
        }
      }
      const bool is_masked = key0 + kOwn > head.template visible<Op>(row0);
#pragma unroll
      for (int j = 0; j < BM / 8; ++j) {
        const int column = j * 8 + lane % 4 * 2;
        const float2 lse = *reinterpret_cast<const float2*>(&s.lse[column]);
        const float2 delta = *reinterpret_cast<const float2*>(&s.delta[column]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int seen = head.template visible<Op>(row0 + column + e % 2);
          p[j][e] = exp2_approx(fmaf(p[j][e], scale, e % 2 == 0 ? -lse.x : -lse.y));
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
        }
#pragma unroll
        for (int j = 0; j < D / 16; ++j) {
          std::uint32_t q[4], d_o[4];
          s.d_o.fragments_b_trans(d_o, i * 16, j * 16, lane);
          mma_m16n8k16<T>(dv[j * 2], weights, {d_o[0], d_o[1]}, dv[j * 2]);
          mma_m16n8k16<T>(dv[j * 2 + 1], weights, {d_o[2], d_o[3]}, dv[j * 2 + 1]);
          s.q.fragments_b_trans(q, i * 16, j * 16, lane);
          mma_m16n8k16<T>(dk[j * 2], gradients, {q[0], q[1]}, dk[j * 2]);
          mma_m16n8k16<T>(dk[j * 2 + 1], gradients, {q[2], q[3]}, dk[j * 2 + 1]);
        }
      }
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

template <class T, int D>
constexpr std::size_t most() {
  return max(sizeof(SharedOfQueries<T, D>), sizeof(SharedOfKeys<T, D>));
}

template <class Op>
struct Recomputed {
  static constexpr ladder::Version version{
      "weights recomputed, dq and dk, dv in kernels of their own"};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return sizeof(float) * static_cast<std::size_t>(a.heads * a.all_queries);
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, cudaStream_t stream) {
    auto* const delta = static_cast<float*>(a.workspace);
    attention_backward_parts::launch_delta(a, delta, stream);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(make_dq<Op, T, D>, query_tiles(a, kOwn), kThreads,
                     sizeof(SharedOfQueries<T, D>), stream, a, delta);
      ladder::launch(make_dk_dv<Op, T, D>, key_tiles(a, kOwn), kThreads, sizeof(SharedOfKeys<T, D>),
                     stream, a, delta);
    });
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support memory = needs_shared_memory(p.d == 64 ? most<T, 64>() : most<T, 128>());
    return memory.ok ? needs_compute_capability(80) : memory;
  }
};

using Plain = attention_backward;
using Causal = attention_causal_backward;
using ladder::bfloat16;
const ladder::Register<Recomputed<Plain>, Plain, bfloat16> plain;
const ladder::Register<Recomputed<Causal>, Causal, bfloat16> causal;

}  // namespace

namespace attention_backward_parts {

template <class T>
void launch_delta(const attention_backward::Args<T>& a, float* delta, cudaStream_t stream) {
  ladder::launch(make_delta<T>, query_tiles(a, kThreads / 32), kThreads, 0, stream, a, delta);
}
template void launch_delta(const attention_backward::Args<ladder::half>&, float*, cudaStream_t);
template void launch_delta(const attention_backward::Args<bfloat16>&, float*, cudaStream_t);

}  // namespace attention_backward_parts
