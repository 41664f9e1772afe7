// Idea      a row of keys is read as vectors of 16 bytes, by 16 lanes of head size 128, by 8 of 64: a
//           warp reads 2 or 4 keys with one instruction, and has the keys and values of four such
//           instructions on their way
// Vs v50    8 or 16 keys for a turn, whose loads all begin before the first is waited for; a score takes
//           4 or 3 shuffles, for 2 or 4 keys at once. What the groups of lanes have of the sum is
//           added up behind the last key
// Bound by  the caches: each head of a group, and each query, reads the keys and values that they share;
//           with few sequences the warps are too few to fill the GPU
// Limits    none
#include "cache.hpp"
#include "device/ptx/exp2.hpp"
#include "device/vector.hpp"
#include "head.hpp"

namespace {

using ladder::ptx::exp2_approx;
using ladder::ptx::kLog2E;

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32, kLoads = 4;

template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a) {
  using Vec = ladder::Vec128<T>;
  constexpr int kLanes = D / Vec::size, kAtOnce = 32 / kLanes;  // lanes for a key, keys for a load
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  const int sequence = blockIdx.y;
  if (row >= a.heads * a.queries) return;
  const int head = row % a.heads, query = row / a.heads;
  const Cache<T> cache(a, head / (a.heads / a.kv_heads), sequence);
  const int seen = max(0, query + cache.keys - a.queries + 1);
  const int own_key = lane / kLanes, column = lane % kLanes * Vec::size;
  const std::int64_t at =
      sequence * a.q_strides.batch + head * a.q_strides.head + query * a.q_strides.row + column;
  const float scale = a.scale * kLog2E;  // exponentials are powers of 2

  const Vec q = Vec::load(a.q + at);
  float acc[Vec::size] = {}, max = -INFINITY, sum = 0;
  for (int key0 = own_key; key0 - own_key < seen; key0 += kLoads * kAtOnce) {
    Vec k[kLoads], v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int key = key0 + i * kAtOnce;
      k[i] = v[i] = {};
      if (key < seen) {
        const std::int64_t from = cache.at(key) + column;
        k[i] = Vec::load(cache.k + from);
        v[i] = Vec::load(cache.v + from);
      }
    }
    float scores[kLoads], new_max = max;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      scores[i] = 0;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {
        scores[i] += static_cast<float>(q[e]) * static_cast<float>(k[i][e]);
      }
#pragma unroll
      for (int to = kLanes / 2; to > 0; to /= 2) {
        scores[i] += __shfl_xor_sync(0xffffffff, scores[i], to);
      }
      scores[i] = key0 + i * kAtOnce < seen ? scores[i] * scale : -INFINITY;
      new_max = fmaxf(new_max, scores[i]);
    }
    const float from = new_max == -INFINITY ? 0 : new_max;  // -inf - -inf is no number
    const float factor = exp2_approx(max - from);
    max = new_max;
    sum *= factor;
#pragma unroll
    for (float& x : acc) x *= factor;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const float weight = exp2_approx(scores[i] - from);
      sum += weight;
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) acc[e] += weight * static_cast<float>(v[i][e]);
    }
  }

#pragma unroll
  for (int to = kLanes; to < 32; to *= 2) {
    const float other = __shfl_xor_sync(0xffffffff, max, to), new_max = fmaxf(max, other);
    const float factor = exp2_approx(max - (new_max == -INFINITY ? 0 : new_max));
    max = new_max;
    sum *= factor;
    sum += __shfl_xor_sync(0xffffffff, sum, to);
#pragma unroll
    for (float& x : acc) {
      x *= factor;
      x += __shfl_xor_sync(0xffffffff, x, to);
    }
  }
  if (own_key > 0) return;
  const float factor = sum > 0 ? 1 / sum : 0;
  Vec o;
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) o[e] = T(acc[e] * factor);
  __stwb(reinterpret_cast<uint4*>(a.o + at),
         *reinterpret_cast<const uint4*>(o.element));  // an ordinary store; nvcc splits Vec's own
  if (lane == 0) {
    a.lse[sequence * a.lse_strides.batch + head * a.lse_strides.head + query * a.lse_strides.row] =
        (max + log2f(sum)) / kLog2E;
  }
}

struct Vectors {
  static constexpr ladder::Version version{"128-bit loads, 8 or 16 keys at once"};

  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.heads * a.queries, kWarps), a.batch);
    with_head_size(a.d, [&](auto d) {
      ladder::launch(attend<T, decltype(d)::value>, grid, kThreads, 0, stream, a);
    });
  }
};

using ladder::bfloat16;
const ladder::Register<Vectors, attention_decode, bfloat16> registration;

}  // namespace
