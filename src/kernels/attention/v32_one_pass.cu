// Idea      one pass: a block has keys, goes through the queries, and makes all three gradients of the
//           one matrix of weights. dk and dv stay in registers. What its keys add to dq it adds to sums
//           in fp32 that all blocks share, with atomics; a kernel behind it scales and rounds them
//
//             scores' gradients, keys by queries    in registers the left operand of dk's product; over
//                                                   shared memory, transposed, that of dq's
//
// Vs v31    five products, not seven, and each element of Q and d_o is read once for a tile of keys.
//           For it each tile of keys moves 4 bytes of every element of dq through the L2, and the sums
//           are set to zero before and read after. Their order is another one in every run, and so
//           are the last bits of dq
// Bound by  latency: all warps wait while queries are loaded; then the atomics
// Limits    compute capability 8.0; 57 KiB of shared memory for head size 128; in the workspace 4 bytes
//           for each element of dq
// Tile      64 keys by 64 queries, for head size 128 by 32; 4 warps of 16 keys, for dq of 16 queries and
//           64 columns
#include "backward_head.hpp"
#include "backward_launchers.hpp"
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "limits.hpp"
#include "padded_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kThreads = 128, BN = kThreads / 32 * 16;

/// Queries that are read at once: the sums of dk and dv take 128 registers for head size 128.
template <int D>
constexpr int kQueries = D == 64 ? 64 : 32;

template <class T, int D>
struct Shared {
  PaddedTile<T, BN, D> k, v;
  PaddedTile<T, kQueries<D>, D> q, d_o;
  PaddedTile<T, BN, kQueries<D>> ds;
  alignas(8) float lse[kQueries<D>], delta[kQueries<D>];
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    make_gradients(attention_backward::Args<T> a, const float* deltas, float* dq_sums) {
  constexpr int BM = kQueries<D>, kColumns = D * (BM / 16) / (kThreads / 32);
  auto& s = *ladder::dynamic_shared<Shared<T, D>>();
  const int group = a.heads / a.kv_heads, first_head = blockIdx.y * group;
  const BackwardHead<T> first(a, first_head, blockIdx.z);
  first.clear_unused_keys(D, blockIdx.x);
  const int key0 = blockIdx.x * BN, warp_key = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
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
      const bool is_masked = key0 + BN > head.template visible<Op>(row0);
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
          T* const to = s.ds.at(warp_key + lane / 4 + w % 2 * 8, i * 16 + w / 2 * 8 + lane % 4 * 2);
          *reinterpret_cast<std::uint32_t*>(to) = gradients[w];
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

      // A warp has 16 queries of dq, and 64 columns.
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
          s.k.fragments_b_trans(k, i, dq_column + j * 16, lane);
          mma_m16n8k16<T>(dq[j * 2], left, {k[0], k[1]}, dq[j * 2]);
          mma_m16n8k16<T>(dq[j * 2 + 1], left, {k[2], k[3]}, dq[j * 2 + 1]);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + dq_row + half * 8 + lane / 4;
        if (row >= head.queries) continue;
        float* const sums = dq_sums + (head.first_row + row) * D + dq_column + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          atomicAdd(sums + j * 8, dq[j][half * 2]);
          atomicAdd(sums + j * 8 + 1, dq[j][half * 2 + 1]);
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

/// dq of its sums, four elements a thread.
template <class T>
__global__ void __launch_bounds__(256)
    round_dq(attention_backward::Args<T> a, const float* dq_sums) {
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  const std::int64_t at = (std::int64_t{blockIdx.x} * 256 + threadIdx.x) * 4;
  const int row = static_cast<int>(at / a.d), column = static_cast<int>(at % a.d);
  if (row >= head.queries) return;
  const auto sum = ladder::Vec128<float>::load(dq_sums + head.first_row * a.d + at);
  const uint2 rounded = make_uint2(ladder::pack<T>(sum[0] * a.scale, sum[1] * a.scale),
                                   ladder::pack<T>(sum[2] * a.scale, sum[3] * a.scale));
  *reinterpret_cast<uint2*>(head.dq + row * head.q_pitch + column) = rounded;
}

template <class Op>
struct OnePass {
  static constexpr ladder::Version version{.idea = "one pass, dq by atomics in fp32",
                                           .unordered_sum = "dq"};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return sizeof(float) * static_cast<std::size_t>(a.heads * a.all_queries * (a.d + 1));
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, cudaStream_t stream) {
    const std::int64_t rows = a.heads * a.all_queries;
    auto* const dq_sums = static_cast<float*>(a.workspace);
    float* const delta = dq_sums + rows * a.d;
    ladder::fill_async(dq_sums, 0, sizeof(float) * static_cast<std::size_t>(rows * a.d), stream);
    attention_backward_parts::launch_delta(a, delta, stream);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(make_gradients<Op, T, D>, key_tiles(a, BN), kThreads, sizeof(Shared<T, D>),
                     stream, a, delta, dq_sums);
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
const ladder::Register<OnePass<Plain>, Plain, bfloat16> plain;
const ladder::Register<OnePass<Causal>, Causal, bfloat16> causal;

}  // namespace

namespace attention_backward_parts {

template <class T>
void launch_round_dq(const attention_backward::Args<T>& a, const float* sums, cudaStream_t stream) {
  ladder::launch(round_dq<T>, query_tiles(a, 256 * 4 / a.d), 256, 0, stream, a, sums);
}
template void launch_round_dq(const attention_backward::Args<ladder::half>&, const float*,
                              cudaStream_t);
template void launch_round_dq(const attention_backward::Args<bfloat16>&, const float*,
                              cudaStream_t);

}  // namespace attention_backward_parts
