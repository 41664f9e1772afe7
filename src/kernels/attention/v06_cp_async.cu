// Idea      cp.async, one half of a K-tile behind the other: V is copied while the scores are made of
//           K, and the next K while the weights are multiplied with V. Tiles are swizzled, not padded
// Vs v05    copies go past the registers, and no warp waits for memory before it multiplies, but in
//           the first K-tile
// Bound by  shared memory: each warp reads all of K and V for 16 queries
// Limits    compute capability 8.0; 48 KiB of shared memory for head size 128
// Tile      64 queries by 64 keys, 4 warps of 16 queries
//
//              | scores j          | softmax | values j          | scores j + 1
//   K          | K-tile j          |         | K-tile j + 1 in flight
//   V          | in flight         |         | V-tile j          | in flight
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "swizzled_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int BM = 64, BN = 64, kThreads = BM / 16 * 32;

template <class T, int D>
struct Shared {
  SwizzledTile<T, BM, D> q;
  SwizzledTile<T, BN, D> k, v;
};

/// Of the four lanes that have a row.
__device__ float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads) attend(attention::Args<T> a) {
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const int row0 = blockIdx.x * BM, warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  if (row0 >= head.queries) return;
  const auto copy = [&](SwizzledTile<T, BN, D>& to, const T* from, int key0) {
    to.template copy<kThreads>(from + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
  };
  s.q.template copy<kThreads>(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
  copy(s.k, head.k, 0);

  // A lane has two rows.
  const int query = row0 + warp_row + lane / 4;
  const int seen[] = {head.template visible<Op>(query), head.template visible<Op>(query + 8)};
  const float scale = a.scale * kLog2E;
  float max[] = {-INFINITY, -INFINITY}, sum[] = {0, 0};
  float acc[D / 8][4] = {};

  for (int key0 = 0; key0 < head.keys; key0 += BN) {
    cp_async_wait_all();
    __syncthreads();  // K is there, and the values of the K-tile before are read
    copy(s.v, head.v, key0);

    float scores[BN / 8][4] = {};
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      std::uint32_t q[4];
      s.q.fragment_a(q, warp_row, i * 2, lane);
#pragma unroll
      for (int j = 0; j < BN / 16; ++j) {
        std::uint32_t k[4];
        s.k.fragments_b(k, j * 16, i * 2, lane);
        mma_m16n8k16<T>(scores[j * 2], q, {k[0], k[1]}, scores[j * 2]);
        mma_m16n8k16<T>(scores[j * 2 + 1], q, {k[2], k[3]}, scores[j * 2 + 1]);
      }
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = max[half];
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          const bool is_seen = key0 + j * 8 + lane % 4 * 2 + e % 2 < seen[half];
          scores[j][e] = is_seen ? scores[j][e] * scale : -INFINITY;
          new_max = fmaxf(new_max, scores[j][e]);
        }
      }
      new_max = max_of_row(new_max);
      const float from = new_max == -INFINITY ? 0 : new_max;  // -inf - -inf is no number
      const float factor = exp2_approx(max[half] - from);
      max[half] = new_max;
      sum[half] *= factor;
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          scores[j][e] = exp2_approx(scores[j][e] - from);
          sum[half] += scores[j][e];
        }
      }
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        acc[j][half * 2] *= factor;
        acc[j][half * 2 + 1] *= factor;
      }
    }

    cp_async_wait_all();
    __syncthreads();  // V is there, and K is read
    if (key0 + BN < head.keys) copy(s.k, head.k, key0 + BN);
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      const std::uint32_t weights[] = {ladder::pack<T>(scores[i * 2][0], scores[i * 2][1]),
                                       ladder::pack<T>(scores[i * 2][2], scores[i * 2][3]),
                                       ladder::pack<T>(scores[i * 2 + 1][0], scores[i * 2 + 1][1]),
                                       ladder::pack<T>(scores[i * 2 + 1][2], scores[i * 2 + 1][3])};
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t v[4];
        s.v.fragments_b_trans(v, i * 16, j * 2, lane);
        mma_m16n8k16<T>(acc[j * 2], weights, {v[0], v[1]}, acc[j * 2]);
        mma_m16n8k16<T>(acc[j * 2 + 1], weights, {v[2], v[3]}, acc[j * 2 + 1]);
      }
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = sum_of_row(sum[half]);
    const int row = query + half * 8;
    if (row >= head.queries) continue;
    if (lane % 4 == 0) head.lse[row] = (max[half] + log2f(sum[half])) / kLog2E;
    const float factor = sum[half] > 0 ? 1 / sum[half] : 0;
    T* const o = head.o + row * head.q_pitch + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      *reinterpret_cast<std::uint32_t*>(o + j * 8) =
          ladder::pack<T>(acc[j][half * 2] * factor, acc[j][half * 2 + 1] * factor);
    }
  }
}

template <class Op>
struct CpAsync {
  static constexpr ladder::Version version{"cp.async, swizzled tiles"};

  template <class T>
  static void launch(const attention::Args<T>& a, cudaStream_t stream) {
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(attend<Op, T, D>, query_tiles(a, BM), kThreads, sizeof(Shared<T, D>), stream,
                     a);
    });
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support memory =
        needs_shared_memory(p.d == 64 ? sizeof(Shared<T, 64>) : sizeof(Shared<T, 128>));
    return memory.ok ? needs_compute_capability(80) : memory;
  }
};

using ladder::bfloat16;
const ladder::Register<CpAsync<attention>, attention, bfloat16> plain;
const ladder::Register<CpAsync<attention_causal>, attention_causal, bfloat16> causal;

}  // namespace
