// Idea      as it is written: one kernel makes all scores, one the softmax of every row of them, one
//           multiplies them with V
// Bound by  the caches: each score is two dependent loads for one multiply-add, and the scores of
//           neighbouring threads are of rows of K that lie apart
// Limits    sequences of one length; scores of 4 bytes for each query and key in the workspace,
//           4 GiB for 16 heads of 8192 by 8192
#include "head.hpp"
#include "limits.hpp"

namespace {

constexpr int kThreads = 256;

/// The scores of a head of a sequence.
template <class T>
__device__ float* scores_of(const attention::Args<T>& a, int head, int sequence) {
  const std::int64_t matrix = std::int64_t{sequence} * a.heads + head;
  return static_cast<float*>(a.workspace) + matrix * a.queries * a.keys;
}

template <class Op, class T>
__global__ void __launch_bounds__(kThreads) make_scores(attention::Args<T> a) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= std::int64_t{a.queries} * a.keys) return;
  const int query = static_cast<int>(at / a.keys), key = static_cast<int>(at % a.keys);
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const T* const q = head.q + query * head.q_pitch;
  const T* const k = head.k + key * head.k_pitch;
  float sum = 0;
  for (int i = 0; i < a.d; ++i) sum += static_cast<float>(q[i]) * static_cast<float>(k[i]);
  const bool is_seen = key < head.template visible<Op>(query);
  scores_of(a, blockIdx.y, blockIdx.z)[at] = is_seen ? sum * a.scale : -INFINITY;
}

/// A warp has a row.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_of_rows(attention::Args<T> a) {
  const int query = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (query >= a.queries) return;
  float* const row = scores_of(a, blockIdx.y, blockIdx.z) + std::int64_t{query} * a.keys;
  float max = -INFINITY, sum = 0;
  for (int key = lane; key < a.keys; key += 32) max = fmaxf(max, row[key]);
  for (int i = 16; i > 0; i /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, i));
  const float from = max == -INFINITY ? 0 : max;  // -inf - -inf is no number
  for (int key = lane; key < a.keys; key += 32) sum += expf(row[key] - from);
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffff, sum, i);
  for (int key = lane; key < a.keys; key += 32) {
    row[key] = sum > 0 ? expf(row[key] - from) / sum : 0;
  }
  if (lane == 0) Head<T>(a, blockIdx.y, blockIdx.z).lse[query] = from + logf(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads) weighted_values(attention::Args<T> a) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int query = static_cast<int>(at / a.d), i = static_cast<int>(at % a.d);
  if (query >= a.queries) return;
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const float* const weight = scores_of(a, blockIdx.y, blockIdx.z) + std::int64_t{query} * a.keys;
  float sum = 0;
  for (int key = 0; key < a.keys; ++key) {
    sum += weight[key] * static_cast<float>(head.v[key * head.k_pitch + i]);
  }
  head.o[query * head.q_pitch + i] = T(sum);
}

template <class Op>
struct ThreeKernels {
  static constexpr ladder::Version version{"scores, softmax, values: three kernels"};

  template <class T>
  static std::size_t workspace(const attention::Args<T>& a) {
    return std::size_t{4} * static_cast<std::size_t>(a.batch) * static_cast<std::size_t>(a.heads) *
           static_cast<std::size_t>(a.queries) * static_cast<std::size_t>(a.keys);
  }
  template <class T>
  static void launch(const attention::Args<T>& a, cudaStream_t stream) {
    const auto blocks = [&](std::int64_t threads) {
      return dim3(static_cast<unsigned>(ladder::ceil_div(threads, kThreads)),
                  static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch));
    };
    const std::int64_t queries = a.queries;
    ladder::launch(make_scores<Op, T>, blocks(queries * a.keys), kThreads, 0, stream, a);
    ladder::launch(softmax_of_rows<T>, blocks(queries * 32), kThreads, 0, stream, a);
    ladder::launch(weighted_values<T>, blocks(queries * a.d), kThreads, 0, stream, a);
  }
  static ladder::Support supports(const attention::Problem& p) { return needs_equal_lengths(p); }
};

using ladder::bfloat16;
using ladder::half;
const ladder::Register<ThreeKernels<attention>, attention, half, bfloat16> plain;
const ladder::Register<ThreeKernels<attention_causal>, attention_causal, half, bfloat16> causal;

}  // namespace
