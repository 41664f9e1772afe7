// Idea      as it is written: one kernel makes the weights and the gradients of the weights, one those
//           of the scores, row by row as softmax's backward does, one dq and one dk and dv
// Bound by  the caches: each multiply-add takes two loads, and in the first kernel those of
//           neighbouring threads are of rows of K and V that lie apart
// Limits    sequences of one length; 8 bytes for each query and key in the workspace, 8 GiB for 16
//           heads of 8192 by 8192
#include "backward_head.hpp"
#include "limits.hpp"

namespace {

constexpr int kThreads = 256;

/// Of a head of a sequence: the weights, and their gradients, which become those of the scores.
struct Matrices {
  float *p, *ds;

  template <class T>
  __device__ Matrices(const attention_backward::Args<T>& a, int head, int sequence) {
    const std::int64_t size = std::int64_t{a.queries} * a.keys;
    p = static_cast<float*>(a.workspace) + (std::int64_t{sequence} * a.heads + head) * size;
    ds = p + std::int64_t{a.batch} * a.heads * size;
  }
};

template <class Op, class T>
__global__ void __launch_bounds__(kThreads) make_weights(attention_backward::Args<T> a) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= std::int64_t{a.queries} * a.keys) return;
  const int query = static_cast<int>(at / a.keys), key = static_cast<int>(at % a.keys);
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  const T *const q = head.q + query * head.q_pitch, *const d_o = head.d_o + query * head.q_pitch;
  const T *const k = head.k + key * head.k_pitch, *const v = head.v + key * head.k_pitch;
  float score = 0, dp = 0;
  for (int i = 0; i < a.d; ++i) score += static_cast<float>(q[i]) * static_cast<float>(k[i]);
  for (int i = 0; i < a.d; ++i) dp += static_cast<float>(d_o[i]) * static_cast<float>(v[i]);
  const bool is_seen = key < head.template visible<Op>(query);
  const Matrices to(a, blockIdx.y, blockIdx.z);
  to.p[at] = is_seen ? expf(score * a.scale - head.lse[query]) : 0;
  to.ds[at] = dp;
}

/// A warp has a row.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_backward(attention_backward::Args<T> a) {
  const int query = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (query >= a.queries) return;
  const Matrices of(a, blockIdx.y, blockIdx.z);
  const float* const p = of.p + std::int64_t{query} * a.keys;
  float* const ds = of.ds + std::int64_t{query} * a.keys;
  float delta = 0;
  for (int key = lane; key < a.keys; key += 32) delta += p[key] * ds[key];
  for (int i = 16; i > 0; i /= 2) delta += __shfl_xor_sync(0xffffffff, delta, i);
  for (int key = lane; key < a.keys; key += 32) ds[key] = p[key] * (ds[key] - delta);
}

template <class T>
__global__ void __launch_bounds__(kThreads) make_dq(attention_backward::Args<T> a) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int query = static_cast<int>(at / a.d), i = static_cast<int>(at % a.d);
  if (query >= a.queries) return;
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  const float* const ds = Matrices(a, blockIdx.y, blockIdx.z).ds + std::int64_t{query} * a.keys;
  float sum = 0;
  for (int key = 0; key < a.keys; ++key) {
    sum += ds[key] * static_cast<float>(head.k[key * head.k_pitch + i]);
  }
  head.dq[query * head.q_pitch + i] = T(sum * a.scale);
}

template <class T>
__global__ void __launch_bounds__(kThreads) make_dk_dv(attention_backward::Args<T> a) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int key = static_cast<int>(at / a.d), i = static_cast<int>(at % a.d);
  if (key >= a.keys) return;
  const int group = a.heads / a.kv_heads, first = blockIdx.y * group;
  float dk = 0, dv = 0;
  for (int h = first; h < first + group; ++h) {
    const BackwardHead<T> head(a, h, blockIdx.z);
    const Matrices of(a, h, blockIdx.z);
    for (int query = 0; query < a.queries; ++query) {
      const std::int64_t pair = std::int64_t{query} * a.keys + key, q_at = query * head.q_pitch + i;
      dk += of.ds[pair] * static_cast<float>(head.q[q_at]);
      dv += of.p[pair] * static_cast<float>(head.d_o[q_at]);
    }
  }
  const BackwardHead<T> head(a, first, blockIdx.z);
  head.dk[key * head.k_pitch + i] = T(dk * a.scale);
  head.dv[key * head.k_pitch + i] = T(dv);
}

template <class Op>
struct StoredWeights {
  static constexpr ladder::Version version{"weights and their gradients stored: four kernels"};

  template <class T>
  static std::size_t workspace(const attention_backward::Args<T>& a) {
    return std::size_t{8} * static_cast<std::size_t>(a.batch) * static_cast<std::size_t>(a.heads) *
           static_cast<std::size_t>(a.queries) * static_cast<std::size_t>(a.keys);
  }
  template <class T>
  static void launch(const attention_backward::Args<T>& a, cudaStream_t stream) {
    const auto blocks = [&](std::int64_t threads, int heads) {
      return dim3(static_cast<unsigned>(ladder::ceil_div(threads, kThreads)),
                  static_cast<unsigned>(heads), static_cast<unsigned>(a.batch));
    };
    const std::int64_t queries = a.queries, keys = a.keys;
    ladder::launch(make_weights<Op, T>, blocks(queries * keys, a.heads), kThreads, 0, stream, a);
    ladder::launch(softmax_backward<T>, blocks(queries * 32, a.heads), kThreads, 0, stream, a);
    ladder::launch(make_dq<T>, blocks(queries * a.d, a.heads), kThreads, 0, stream, a);
    ladder::launch(make_dk_dv<T>, blocks(keys * a.d, a.kv_heads), kThreads, 0, stream, a);
  }
  static ladder::Support supports(const attention::Problem& p) { return needs_equal_lengths(p); }
};

using Plain = attention_backward;
using Causal = attention_causal_backward;
using ladder::bfloat16;
using ladder::half;
const ladder::Register<StoredWeights<Plain>, Plain, half, bfloat16> plain;
const ladder::Register<StoredWeights<Causal>, Causal, half, bfloat16> causal;

}  // namespace
