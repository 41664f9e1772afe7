// Idea      decoding, a warp for each query of each head: it goes through the keys one by one, each lane
//           with some of the elements of the rows, and rescales what it has when the maximum grows
// Bound by  latency: a turn waits for a key, five shuffles add up its score, then it waits for the
//           value; 2 rows are on their way for a warp. Loads of 2 bytes; each head of a group reads
//           the keys and values that they share
// Limits    none
#include "cache.hpp"
#include "head.hpp"

namespace {

template <class T>
using Args = attention_decode::Args<T>;

constexpr int kWarps = 4, kThreads = kWarps * 32;

template <class T, int D>
__global__ void __launch_bounds__(kThreads) attend(Args<T> a) {
  constexpr int N = D / 32;  // elements of a row for a lane, 32 apart
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  const int sequence = blockIdx.y;
  if (row >= a.heads * a.queries) return;
  const int head = row % a.heads, query = row / a.heads;
  const Cache<T> cache(a, head / (a.heads / a.kv_heads), sequence);
  const int seen = max(0, query + cache.keys - a.queries + 1);
  const std::int64_t at =
      sequence * a.q_strides.batch + head * a.q_strides.head + query * a.q_strides.row + lane;

  float q[N], acc[N] = {}, max = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) q[i] = static_cast<float>(a.q[at + i * 32]);
  for (int key = 0; key < seen; ++key) {
    const std::int64_t from = cache.at(key) + lane;
    float score = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) score += q[i] * static_cast<float>(cache.k[from + i * 32]);
    for (int i = 16; i > 0; i /= 2) score += __shfl_xor_sync(0xffffffff, score, i);
    score *= a.scale;
    const float new_max = fmaxf(max, score);
    const float factor = expf(max - new_max), weight = expf(score - new_max);
    max = new_max;
    sum = sum * factor + weight;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      acc[i] = acc[i] * factor + weight * static_cast<float>(cache.v[from + i * 32]);
    }
  }
  const float factor = sum > 0 ? 1 / sum : 0;
#pragma unroll
  for (int i = 0; i < N; ++i) a.o[at + i * 32] = T(acc[i] * factor);
  if (lane == 0) {
    a.lse[sequence * a.lse_strides.batch + head * a.lse_strides.head + query * a.lse_strides.row] =
        max + logf(sum);
  }
}

struct WarpPerHead {
  static constexpr ladder::Version version{"decode: a warp per head and query"};

  template <class T>
  static void launch(const Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.heads * a.queries, kWarps), a.batch);
    with_head_size(a.d, [&](auto d) {
      ladder::launch(attend<T, decltype(d)::value>, grid, kThreads, 0, stream, a);
    });
  }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<WarpPerHead, attention_decode, half, bfloat16> registration;

}  // namespace
