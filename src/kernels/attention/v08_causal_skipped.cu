// Idea      under a causal mask no product of what nobody sees: a block ends with the last key that its
//           last query sees, and only tiles that its first query does not see whole are masked
// Vs v07    half of the products, and no comparisons but in the last tiles. The tiles of queries that
//           see most begin first, so that the last blocks to run are short
// Bound by  the tensor cores as mma.sync drives them, and the exponentials between the products
// Limits    compute capability 8.0; 64 KiB of shared memory for head size 128, where nvcc 13 spills
//           12 words of registers
// Tile      128 queries by 64 keys, 4 warps of 32 queries
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "swizzled_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kFragments = 2, WM = kFragments * 16, BM = 128, BN = 64, kThreads = BM / WM * 32;

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
  // Longest first.
  const int tile = static_cast<int>(Op::kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  const int row0 = tile * BM, warp_row = threadIdx.x / 32 * WM, lane = threadIdx.x % 32;
  if (row0 >= head.queries) return;
  const auto copy = [&](SwizzledTile<T, BN, D>& to, const T* from, int key0) {
    to.template copy<kThreads>(from + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
  };
  s.q.template copy<kThreads>(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
  copy(s.k, head.k, 0);

  // A lane has two rows of a fragment, 8 apart.
  const int query = row0 + warp_row + lane / 4;
  const float scale = a.scale * kLog2E;
  float max[kFragments][2], sum[kFragments][2] = {};
  float acc[kFragments][D / 8][4] = {};
#pragma unroll
  for (auto& of_fragment : max) of_fragment[0] = of_fragment[1] = -INFINITY;

  const int seen_by_all = head.template visible<Op>(row0);
  const int end = head.template visible<Op>(row0 + BM - 1);  // what is seen at all
  for (int key0 = 0; key0 < end; key0 += BN) {
    cp_async_wait_all();
    __syncthreads();  // K is there, and the values of the K-tile before are read
    copy(s.v, head.v, key0);

    float scores[kFragments][BN / 8][4] = {};
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      std::uint32_t q[kFragments][4];
#pragma unroll
      for (int f = 0; f < kFragments; ++f) s.q.fragment_a(q[f], warp_row + f * 16, i * 2, lane);
#pragma unroll
      for (int j = 0; j < BN / 16; ++j) {
        std::uint32_t k[4];
        s.k.fragments_b(k, j * 16, i * 2, lane);
#pragma unroll
        for (int f = 0; f < kFragments; ++f) {
          auto& to = scores[f];
          mma_m16n8k16<T>(to[j * 2], q[f], {k[0], k[1]}, to[j * 2]);
          mma_m16n8k16<T>(to[j * 2 + 1], q[f], {k[2], k[3]}, to[j * 2 + 1]);
        }
      }
    }

    const bool is_masked = key0 + BN > seen_by_all;
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int seen = head.template visible<Op>(query + f * 16 + half * 8);
        float new_max = max[f][half];
#pragma unroll
        for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            const bool is_seen = key0 + j * 8 + lane % 4 * 2 + e % 2 < seen;
            if (is_masked && !is_seen) scores[f][j][e] = -INFINITY;
            new_max = fmaxf(new_max, scores[f][j][e] * scale);
          }
        }
        new_max = max_of_row(new_max);
        const float from = new_max == -INFINITY ? 0 : new_max;  // -inf - -inf is no number
        const float factor = exp2_approx(max[f][half] - from);
        max[f][half] = new_max;
        sum[f][half] *= factor;
#pragma unroll
        for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
          for (int e = half * 2; e < half * 2 + 2; ++e) {
            scores[f][j][e] = exp2_approx(fmaf(scores[f][j][e], scale, -from));
            sum[f][half] += scores[f][j][e];
          }
        }
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          acc[f][j][half * 2] *= factor;
          acc[f][j][half * 2 + 1] *= factor;
        }
      }
    }

    cp_async_wait_all();
    __syncthreads();  // V is there, and K is read
    if (key0 + BN < end) copy(s.k, head.k, key0 + BN);
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      std::uint32_t weights[kFragments][4];
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const auto& pair = scores[f][i * 2 + w / 2];
          weights[f][w] = ladder::pack<T>(pair[w % 2 * 2], pair[w % 2 * 2 + 1]);
        }
      }
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t v[4];
        s.v.fragments_b_trans(v, i * 16, j * 2, lane);
#pragma unroll
        for (int f = 0; f < kFragments; ++f) {
          mma_m16n8k16<T>(acc[f][j * 2], weights[f], {v[0], v[1]}, acc[f][j * 2]);
          mma_m16n8k16<T>(acc[f][j * 2 + 1], weights[f], {v[2], v[3]}, acc[f][j * 2 + 1]);
        }
      }
    }
  }

#pragma unroll
  for (int f = 0; f < kFragments; ++f) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = sum_of_row(sum[f][half]);
      const int row = query + f * 16 + half * 8;
      if (row >= head.queries) continue;
      if (lane % 4 == 0) head.lse[row] = (max[f][half] + log2f(total)) / kLog2E;
      const float factor = total > 0 ? 1 / total : 0;
      T* const o = head.o + row * head.q_pitch + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        *reinterpret_cast<std::uint32_t*>(o + j * 8) =
            ladder::pack<T>(acc[f][j][half * 2] * factor, acc[f][j][half * 2 + 1] * factor);
      }
    }
  }
}

template <class Op>
struct CausalSkipped {
  static constexpr ladder::Version version{"unseen tiles skipped, longest first"};

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
using ladder::half;
const ladder::Register<CausalSkipped<attention>, attention, half, bfloat16> plain;
const ladder::Register<CausalSkipped<attention_causal>, attention_causal, half, bfloat16> causal;

}  // namespace
