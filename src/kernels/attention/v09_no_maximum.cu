// Idea      no maximum is looked for: weights are made relative to a maximum of before at once, and their
//           sums, which are needed in any case, tell if one of them was too large
// Vs v08    a third fewer instructions between the products: no comparisons, no shuffles but where a row's
//           maximum has grown, and sums of values are multiplied by a factor only there
// Bound by  the tensor cores as mma.sync drives them
// Limits    compute capability 8.0; 64 KiB of shared memory for head size 128
// Tile      128 queries by 64 keys, 4 warps of 32 queries
#include "device/ptx/mma.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "sum_checked_rows.hpp"
#include "swizzled_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kFragments = 2, WM = kFragments * 16, BM = 128, BN = 64, kThreads = BM / WM * 32;

template <class T, int D>
struct Shared {
  SwizzledTile<T, BM, D> q;
  SwizzledTile<T, BN, D> k, v;
};

/// The columns from j * 16 on of sums += a * b, in two products of 8.
template <class T, int kSums>
__device__ __forceinline__ void multiply_add(float (&sums)[kSums], int j,
                                             const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    auto& of_half = reinterpret_cast<float(&)[4]>(sums[j * 8 + half * 4]);
    mma_m16n8k16<T>(of_half, a, {b[half * 2], b[half * 2 + 1]}, of_half);
  }
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

  // Of a fragment a lane has a row and the one 8 behind it, as of a warpgroup's accumulators.
  const int query = row0 + warp_row + lane / 4;
  SumCheckedRows rows[kFragments] = {{Op{}, head, query, a.scale},
                                     {Op{}, head, query + 16, a.scale}};
  float acc[kFragments][D / 2] = {};

  const int seen_by_all = head.template visible<Op>(row0);
  const int end = head.template visible<Op>(row0 + BM - 1);  // what is seen at all
  for (int key0 = 0; key0 < end; key0 += BN) {
    cp_async_wait_all();
    __syncthreads();  // K is there, and the values of the K-tile before are read
    copy(s.v, head.v, key0);

    float scores[kFragments][BN / 2] = {};
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
          multiply_add<T>(scores[f], j, q[f], k);
        }
      }
    }

    std::uint32_t weights[kFragments][BN / 16][4];
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      float factor[2];
      if (rows[f].weigh<T>(weights[f], scores[f], key0, key0 + BN > seen_by_all, factor)) {
        scale_rows(acc[f], factor);
      }
    }

    cp_async_wait_all();
    __syncthreads();  // V is there, and K is read
    if (key0 + BN < end) copy(s.k, head.k, key0 + BN);
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t v[4];
        s.v.fragments_b_trans(v, i * 16, j * 2, lane);
#pragma unroll
        for (int f = 0; f < kFragments; ++f) multiply_add<T>(acc[f], j, weights[f][i], v);
      }
    }
  }

#pragma unroll
  for (int f = 0; f < kFragments; ++f) rows[f].store(head, query + f * 16, acc[f]);
}

template <class Op>
struct NoMaximum {
  static constexpr ladder::Version version{
      "sums of weights tell when a maximum is needed, mma.sync"};

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
const ladder::Register<NoMaximum<attention>, attention, half, bfloat16> plain;
const ladder::Register<NoMaximum<attention_causal>, attention_causal, half, bfloat16> causal;

}  // namespace
