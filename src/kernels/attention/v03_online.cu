// Idea      one kernel, and no matrix of scores: the keys go by in tiles, and a row's maximum and sum
//           are online (softmax v04). What a tile adds to o is weighed against what was there before
//           (FlashAttention)
// Vs v02    the workspace is o in fp32, a maximum and a sum for each query: of the length, not of its
//           square. K and V are read once
// Bound by  the number of heads: a block has one, with its tiles of keys outside and those of queries
//           inside. o goes to memory and back for each K-tile
// Limits    sequences of one length; compute capability 8.0; 79 KiB of shared memory for head size
//           128
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

/// What there is of o after some K-tiles, of a head of a sequence.
struct SoFar {
  float *o, *max, *sum;  // [queries][d], [queries], [queries]

  template <class T>
  __device__ SoFar(const attention::Args<T>& a, int head, int sequence) {
    const std::int64_t rows = std::int64_t{a.batch} * a.heads * a.queries;
    const std::int64_t row = (std::int64_t{sequence} * a.heads + head) * a.queries;
    auto* const workspace = static_cast<float*>(a.workspace);
    o = workspace + row * a.d;
    max = workspace + rows * a.d + row;
    sum = max + rows;
  }
};

template <class T, int D>
struct Shared {
  PaddedTile<T, BM, D> q;
  PaddedTile<T, BN, D> k, v;
  PaddedTile<T, BM, BN> weights;
  float scores[BM][BN + 4];
  float of_before[BM], of_tile[BM];  // what is multiplied with: o so far, and this tile's part
};

template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads) attend(attention::Args<T> a) {
  Shared<T, D>& s = *ladder::dynamic_shared<Shared<T, D>>();
  const Head<T> head(a, blockIdx.x, blockIdx.y);
  const SoFar so_far(a, blockIdx.x, blockIdx.y);
  const int warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  const float scale = a.scale * kLog2E;  // exponentials are powers of 2

  int key0 = 0;
  do {  // once at least: queries without keys have an o, too
    const bool is_first = key0 == 0, is_last = key0 + BN >= head.keys;
    __syncthreads();
    s.k.load(head.k + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
    s.v.load(head.v + key0 * head.k_pitch, head.k_pitch, head.keys - key0);

    for (int row0 = 0; row0 < head.queries; row0 += BM) {
      __syncthreads();
      s.q.load(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
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
          *reinterpret_cast<float2*>(to) =
              make_float2(scores[j][half * 2], scores[j][half * 2 + 1]);
        }
      }
      __syncwarp();

      // Two lanes have a row, its even and its odd columns.
      const int row = warp_row + lane / 2, query = row0 + row, odd = lane % 2;
      const bool exists = query < head.queries;
      const int seen = head.template visible<Op>(query);
      const auto score = [&](int column) {
        return key0 + column < seen ? s.scores[row][column] * scale : -INFINITY;
      };
      const float max = exists && !is_first ? so_far.max[query] : -INFINITY;
      const float sum = exists && !is_first ? so_far.sum[query] : 0;
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
      tile_sum += __shfl_xor_sync(0xffffffff, tile_sum, 1);
      const float before = sum * exp2_approx(max - from), new_sum = before + tile_sum;
      if (odd == 0) {
        s.of_before[row] = new_sum > 0 ? before / new_sum : 0;
        s.of_tile[row] = new_sum > 0 ? 1 / new_sum : 0;
      }
      __syncwarp();
      if (odd == 0 && exists) {
        so_far.max[query] = new_max;
        so_far.sum[query] = new_sum;
        if (is_last) head.lse[query] = (new_max + log2f(new_sum)) / kLog2E;
      }

      float acc[D / 8][4] = {};
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
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int of_tile = warp_row + half * 8 + lane / 4, at = row0 + of_tile;
        if (at >= head.queries) continue;
        const float weight = s.of_tile[of_tile], before_weight = s.of_before[of_tile];
        const int column = lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          auto* const o =
              reinterpret_cast<float2*>(&so_far.o[std::int64_t{at} * D + j * 8 + column]);
          float2 sums{acc[j][half * 2] * weight, acc[j][half * 2 + 1] * weight};
          if (!is_first) {
            const float2 was = *o;
            sums = {sums.x + was.x * before_weight, sums.y + was.y * before_weight};
          }
          if (is_last) {
            *reinterpret_cast<std::uint32_t*>(head.o + at * head.q_pitch + j * 8 + column) =
                ladder::pack<T>(sums.x, sums.y);
          } else {
            *o = sums;
          }
        }
      }
    }
    key0 += BN;
  } while (key0 < head.keys);
}

template <class Op>
struct Online {
  static constexpr ladder::Version version{"online softmax, one kernel"};

  template <class T>
  static std::size_t workspace(const attention::Args<T>& a) {
    return sizeof(float) * static_cast<std::size_t>(a.d + 2) * static_cast<std::size_t>(a.batch) *
           static_cast<std::size_t>(a.heads) * static_cast<std::size_t>(a.queries);
  }
  template <class T>
  static void launch(const attention::Args<T>& a, cudaStream_t stream) {
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(attend<Op, T, D>,
                     dim3(static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)), kThreads,
                     sizeof(Shared<T, D>), stream, a);
    });
  }
  template <class T>
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support lengths = needs_equal_lengths(p);
    if (!lengths.ok) return lengths;
    const ladder::Support memory =
        needs_shared_memory(p.d == 64 ? sizeof(Shared<T, 64>) : sizeof(Shared<T, 128>));
    return memory.ok ? needs_compute_capability(80) : memory;
  }
};

using ladder::bfloat16;
const ladder::Register<Online<attention>, attention, bfloat16> plain;
const ladder::Register<Online<attention_causal>, attention_causal, bfloat16> causal;

}  // namespace
