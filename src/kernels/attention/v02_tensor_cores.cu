// Idea      both products on tensor cores, and one kernel between them that scales, masks and takes
//           the softmax, as frameworks did before 2022
// Vs v01    elements of Q, K and V are read from memory for a tile, not for a thread; the weights are
//           of the element type, half as many bytes
// Bound by  memory: scores are written once and read three times, weights written and read; for 4096
//           keys of head size 128 that is 80 times the traffic of Q, K, V and o
// Limits    sequences of one length; compute capability 8.0; 6 bytes for each query and key in the
//           workspace
// Tile      of both products 64 x 64, the second's as wide as a head; 4 warps of 16 rows
#include "device/pairs.hpp"
#include "device/ptx/exp2.hpp"
#include "device/ptx/mma.hpp"
#include "head.hpp"
#include "limits.hpp"
#include "padded_tile.hpp"

namespace {

using namespace ladder::ptx;

constexpr int BM = 64, BN = 64, kThreads = BM / 16 * 32;

/// The scores of a head of a sequence, and the weights. Rows are whole vectors of 8 weights.
template <class T>
struct Matrices {
  float* scores;
  T* weights;
  std::int64_t pitch;

  __host__ __device__ static std::int64_t pitch_of(const attention::Args<T>& a) {
    return ladder::ceil_div(a.keys, 8) * std::int64_t{8};
  }
  __device__ Matrices(const attention::Args<T>& a, int head, int sequence) : pitch(pitch_of(a)) {
    const std::int64_t size = a.queries * pitch, count = std::int64_t{a.batch} * a.heads;
    const std::int64_t number = std::int64_t{sequence} * a.heads + head;
    scores = static_cast<float*>(a.workspace) + number * size;
    weights = reinterpret_cast<T*>(static_cast<float*>(a.workspace) + count * size) + number * size;
  }
};

template <class T, int D>
__global__ void __launch_bounds__(kThreads) multiply_q_k(attention::Args<T> a, int key_tiles) {
  __shared__ PaddedTile<T, BM, D> q_tile;
  __shared__ PaddedTile<T, BN, D> k_tile;
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const Matrices<T> to(a, blockIdx.y, blockIdx.z);
  const int row0 = static_cast<int>(blockIdx.x) / key_tiles * BM;
  const int key0 = static_cast<int>(blockIdx.x) % key_tiles * BN;
  const int warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  q_tile.load(head.q + row0 * head.q_pitch, head.q_pitch, head.queries - row0);
  k_tile.load(head.k + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
  __syncthreads();

  float scores[BN / 8][4] = {};
#pragma unroll
  for (int i = 0; i < D; i += 16) {
    std::uint32_t q[4];
    q_tile.fragment_a(q, warp_row, i, lane);
#pragma unroll
    for (int j = 0; j < BN / 16; ++j) {
      std::uint32_t k[4];
      k_tile.fragments_b(k, j * 16, i, lane);
      mma_m16n8k16<T>(scores[j * 2], q, {k[0], k[1]}, scores[j * 2]);
      mma_m16n8k16<T>(scores[j * 2 + 1], q, {k[2], k[3]}, scores[j * 2 + 1]);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = row0 + warp_row + half * 8 + lane / 4;
    if (query >= head.queries) continue;
    float* const row = to.scores + query * to.pitch;
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      const int key = key0 + j * 8 + lane % 4 * 2;
      if (key >= to.pitch) continue;
      *reinterpret_cast<float2*>(row + key) =
          make_float2(scores[j][half * 2], scores[j][half * 2 + 1]);
    }
  }
}

/// A warp has a row.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads) scale_mask_softmax(attention::Args<T> a) {
  const int query = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (query >= a.queries) return;
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const Matrices<T> of(a, blockIdx.y, blockIdx.z);
  const float* const row = of.scores + query * of.pitch;
  T* const weights = of.weights + query * of.pitch;
  const int seen = head.template visible<Op>(query);
  const float scale = a.scale * kLog2E;  // exponentials are powers of 2

  float max = -INFINITY, sum = 0;
  for (int key = lane; key < seen; key += 32) max = fmaxf(max, row[key] * scale);
  for (int i = 16; i > 0; i /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, i));
  for (int key = lane; key < seen; key += 32) sum += exp2_approx(row[key] * scale - max);
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffff, sum, i);
  const float factor = 1 / sum;
  for (int key = lane; key < of.pitch; key += 32) {
    weights[key] = T(key < seen ? exp2_approx(row[key] * scale - max) * factor : 0);
  }
  if (lane == 0) head.lse[query] = (max + log2f(sum)) / kLog2E;
}

template <class T, int D>
__global__ void __launch_bounds__(kThreads) multiply_weights_v(attention::Args<T> a) {
  __shared__ PaddedTile<T, BM, BN> w_tile;
  __shared__ PaddedTile<T, BN, D> v_tile;
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const Matrices<T> of(a, blockIdx.y, blockIdx.z);
  const int row0 = blockIdx.x * BM, warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;

  float acc[D / 8][4] = {};
  for (int key0 = 0; key0 < head.keys; key0 += BN) {
    __syncthreads();
    w_tile.load(of.weights + row0 * of.pitch + key0, of.pitch, head.queries - row0,
                static_cast<int>(of.pitch) - key0);
    v_tile.load(head.v + key0 * head.k_pitch, head.k_pitch, head.keys - key0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BN; i += 16) {
      std::uint32_t w[4];
      w_tile.fragment_a(w, warp_row, i, lane);
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t v[4];
        v_tile.fragments_b_trans(v, i, j * 16, lane);
        mma_m16n8k16<T>(acc[j * 2], w, {v[0], v[1]}, acc[j * 2]);
        mma_m16n8k16<T>(acc[j * 2 + 1], w, {v[2], v[3]}, acc[j * 2 + 1]);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = row0 + warp_row + half * 8 + lane / 4;
    if (query >= head.queries) continue;
    T* const o = head.o + query * head.q_pitch + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      *reinterpret_cast<std::uint32_t*>(o + j * 8) =
          ladder::pack<T>(acc[j][half * 2], acc[j][half * 2 + 1]);
    }
  }
}

template <class Op>
struct TensorCores {
  static constexpr ladder::Version version{"products on tensor cores, scale + mask + softmax"};

  template <class T>
  static std::size_t workspace(const attention::Args<T>& a) {
    return (sizeof(float) + sizeof(T)) * static_cast<std::size_t>(a.batch) *
           static_cast<std::size_t>(a.heads) * static_cast<std::size_t>(a.queries) *
           static_cast<std::size_t>(Matrices<T>::pitch_of(a));
  }
  template <class T>
  static void launch(const attention::Args<T>& a, cudaStream_t stream) {
    const auto key_tiles = static_cast<unsigned>(ladder::ceil_div(a.keys, BN));
    const dim3 tiles = query_tiles(a, BM);
    with_head_size(a.d, [&](auto d) {
      constexpr int D = decltype(d)::value;
      ladder::launch(multiply_q_k<T, D>, dim3(tiles.x * key_tiles, tiles.y, tiles.z), kThreads, 0,
                     stream, a, static_cast<int>(key_tiles));
      ladder::launch(scale_mask_softmax<Op, T>, query_tiles(a, kThreads / 32), kThreads, 0, stream,
                     a);
      ladder::launch(multiply_weights_v<T, D>, tiles, kThreads, 0, stream, a);
    });
  }
  static ladder::Support supports(const attention::Problem& p) {
    const ladder::Support lengths = needs_equal_lengths(p);
    return lengths.ok ? needs_compute_capability(80) : lengths;
  }
};

using ladder::bfloat16;
const ladder::Register<TensorCores<attention>, attention, bfloat16> plain;
const ladder::Register<TensorCores<attention_causal>, attention_causal, bfloat16> causal;

}  // namespace
