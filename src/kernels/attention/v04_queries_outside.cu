// Idea      a block has a tile of queries and goes over the keys: its o, maxima and sums stay where
//           they are, and o is divided by the sums once, at the end (FlashAttention-2)
// Vs v03    no o in memory between the K-tiles, no workspace, and as many blocks as there are tiles
//           of queries, not heads
// Bound by  shared memory, and barriers: scores are written to it by the lanes that have them and
//           read by those that have a row, weights the other way
// Limits    compute capability 8.0; 79 KiB of shared memory for head size 128
// Tile      64 queries by 64 keys, 4 warps of 16 queries
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "padded_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int BM = 64, BN = 64, kThreads = BM / 16 * 32;

template <class T, int D>
struct Shared {
  PaddedTile<T, BM, D> q;
  PaddedTile<T, BN, D> k, v;
  PaddedTile<T, BM, BN> weights;
  float scores[BM][BN + 4];
  float factor[BM];
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads) attend(attention::Args<T> a) {
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const int row0 = blockIdx.x * BM, warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  if (row0 >= head.queries) return;
  s.q.load(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);

  // Of the scores two lanes have a row, its even and its odd columns. Exponentials are powers of 2.
  const int row = warp_row + lane / 2, odd = lane % 2;
  const int seen = head.template visible<Op>(row0 + row);
  const float scale = a.scale * kLog2E;
  float max = -INFINITY, sum = 0;
  float acc[D / 8][4] = {};

  for (int key0 = 0; key0 < head.keys; key0 += BN) {
    __syncthreads();
    s.k.load(head.k + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
    s.v.load(head.v + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
    __syncthreads();

    float scores[BN / 8][4] = {};
#pragma unroll
    for (int i = 0; i < D; i += 16) {
      std::uint32_t q[4];
      s.q.fragment_a(q, warp_row, i, lane);
#pragma unroll
      for (int j = 0; j < BN / 16; ++j) {
        std::uint32_t k[4];
        s.k.fragments_b(k, j * 16, i, lane);
        mma_m16n8k16<T>(scores[j * 2], q, {k[0], k[1]}, scores[j * 2]);
        mma_m16n8k16<T>(scores[j * 2 + 1], q, {k[2], k[3]}, scores[j * 2 + 1]);
      }
    }
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const to = &s.scores[warp_row + half * 8 + lane / 4][j * 8 + lane % 4 * 2];
        *reinterpret_cast<float2*>(to) = make_float2(scores[j][half * 2], scores[j][half * 2 + 1]);
      }
    }
    __syncwarp();

    const auto score = [&](int column) {
      return key0 + column < seen ? s.scores[row][column] * scale : -INFINITY;
    };
    float new_max = max;
    for (int column = odd; column < BN; column += 2) new_max = fmaxf(new_max, score(column));
    new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffff, new_max, 1));
    const float from = new_max == -INFINITY ? 0 : new_max;  // -inf - -inf is no number
    float tile_sum = 0;
    for (int column = odd; column < BN; column += 2) {
      const float weight = exp2_approx(score(column) - from);
      *s.weights.at(row, column) = T(weight);
      tile_sum += weight;
    }
    const float factor = exp2_approx(max - from);
    sum = sum * factor + tile_sum + __shfl_xor_sync(0xffffffff, tile_sum, 1);
    max = new_max;
    if (odd == 0) s.factor[row] = factor;
    __syncwarp();

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float of_row = s.factor[warp_row + half * 8 + lane / 4];
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        acc[j][half * 2] *= of_row;
        acc[j][half * 2 + 1] *= of_row;
      }
    }
#pragma unroll
    for (int i = 0; i < BN; i += 16) {
      std::uint32_t weights[4];
      s.weights.fragment_a(weights, warp_row, i, lane);
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t v[4];
        s.v.fragments_b_trans(v, i, j * 16, lane);
        mma_m16n8k16<T>(acc[j * 2], weights, {v[0], v[1]}, acc[j * 2]);
        mma_m16n8k16<T>(acc[j * 2 + 1], weights, {v[2], v[3]}, acc[j * 2 + 1]);
      }
    }
  }

  __syncwarp();
  if (odd == 0) {
    s.factor[row] = sum > 0 ? 1 / sum : 0;
    if (row0 + row < head.queries) head.lse[row0 + row] = (max + log2f(sum)) / kLog2E;
  }
  __syncwarp();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = warp_row + half * 8 + lane / 4;
    if (row0 + query >= head.queries) continue;
    T* const o = head.o + (row0 + query) * head.q_pitch + lane % 4 * 2;
    const float factor = s.factor[query];
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      *reinterpret_cast<std::uint32_t*>(o + j * 8) =
          ladder::pack<T>(acc[j][half * 2] * factor, acc[j][half * 2 + 1] * factor);
    }
  }
}

template <class Op>
struct QueriesOutside {
  static constexpr ladder::Version version{"queries outside, normalised last"};

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
const ladder::Register<QueriesOutside<attention>, attention, bfloat16> plain;
const ladder::Register<QueriesOutside<attention_causal>, attention_causal, bfloat16> causal;

}  // namespace
