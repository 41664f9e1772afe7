#include "reference.hpp"

#include "harness/cuda/error.hpp"
#include "head.hpp"

#include <string>

namespace attention_reference {
namespace {

constexpr int kRows = 8, kKeys = 32, kThreads = kRows * kKeys;

/// A warp's maximum and sum.
__device__ double max_of_warp(double x) {
  for (int i = 16; i > 0; i /= 2) x = fmax(x, __shfl_xor_sync(0xffffffff, x, i));
  return x;
}
__device__ double sum_of_warp(double x) {
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffff, x, i);
  return x;
}

/// A block has kRows queries, a warp the scores of one of them with kKeys keys at a time; of the
/// sums over the keys a thread has those of one column, for some of the queries.
template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    answer(attention::Args<T> a, ladder::AnswerOnGpu o, ladder::AnswerOnGpu lse) {
  constexpr int kSums = kRows * D / kThreads;
  __shared__ double q[kRows][D], weight[kRows][kKeys], off[kRows][kKeys], rescale[kRows];
  __shared__ T k[kKeys][D + 2], v[kKeys][D];
  const Head<T> head(a, blockIdx.y, blockIdx.z);
  const int row0 = blockIdx.x * kRows, row = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int column = threadIdx.x % D, first = threadIdx.x / D * kSums;
  if (row0 >= head.queries) return;
  for (int i = threadIdx.x; i < kRows * D; i += kThreads) {
    const bool exists = row0 + i / D < head.queries;
    q[i / D][i % D] = exists ? ladder::widen(head.q[(row0 + i / D) * head.q_pitch + i % D]) : 0;
  }

  const int seen = head.template visible<Op>(row0 + row);
  const int end = head.template visible<Op>(row0 + kRows - 1);
  const double scale = 1 / sqrt(static_cast<double>(D));
  double max = -INFINITY, sum = 0, error = 0;  // of the warp's query
  Sums sums[kSums] = {};
  for (int key0 = 0; key0 < end; key0 += kKeys) {
    __syncthreads();
    for (int i = threadIdx.x; i < kKeys * D; i += kThreads) {
      const bool exists = key0 + i / D < head.keys;
      const std::int64_t at = (key0 + i / D) * head.k_pitch + i % D;
      k[i / D][i % D] = exists ? head.k[at] : T(0.0f);
      v[i / D][i % D] = exists ? head.v[at] : T(0.0f);
    }
    __syncthreads();
    double s = 0, magnitude = 0;
    for (int i = 0; i < D; ++i) {
      const double product = q[row][i] * ladder::widen(k[lane][i]);
      s += product;
      magnitude += fabs(product);
    }
    s = key0 + lane < seen ? s * scale : -INFINITY;
    const double new_max = fmax(max, max_of_warp(s));
    const double from = new_max == -INFINITY ? 0 : new_max;
    const double p = exp(s - from), factor = exp(max - from);
    const double e = p > 0 ? p * error_of_score(s, magnitude * scale, D) : 0;
    sum = sum * factor + sum_of_warp(p);
    error = error * factor + sum_of_warp(e);
    max = new_max;
    weight[row][lane] = p;
    off[row][lane] = e;
    if (lane == 0) rescale[row] = factor;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kSums; ++r) {
      Sums& of = sums[r];
      const double by = rescale[first + r];
      of.value *= by;
      of.terms *= by;
      of.squares *= by * by;
      of.moved *= by;
      for (int j = 0; j < kKeys; ++j) {
        const double element = ladder::widen(v[j][column]), size = fabs(element);
        const double term = weight[first + r][j] * size;
        of.value += weight[first + r][j] * element;
        of.terms += term;
        of.squares += term * term;
        if (key0 + j < head.template visible<Op>(row0 + first + r)) of.steps += size * size;
        of.moved += off[first + r][j] * size;
      }
    }
  }

  // What the rows' warps know goes to those who have their columns.
  __shared__ double sum_of[kRows], error_of[kRows], max_of[kRows];
  if (lane == 0) {
    sum_of[row] = sum;
    error_of[row] = error + sum * error_of_max(max);
    max_of[row] = max;
    if (row0 + row < head.queries) {
      const std::int64_t at = head.lse - a.lse + row0 + row;
      lse.values[at] = seen > 0 ? max + log(sum) : -INFINITY;
      lse.magnitude[at] = seen > 0 ? limit_of_lse(max, sum, error_of[row], seen) : 0;
    }
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kSums; ++r) {
    const int query = row0 + first + r;
    if (query >= head.queries) continue;
    const std::int64_t at = head.o - a.o + query * head.q_pitch + column;
    const int keys = head.template visible<Op>(query);
    Sums of = sums[r];
    of.weights = sum_of[first + r];
    of.error = error_of[first + r];
    of.moved += of.terms * error_of_max(max_of[first + r]);
    of.value = keys > 0 ? of.value / of.weights : 0;
    o.values[at] = of.value;
    o.magnitude[at] = keys > 0 ? limit_of_o<T>(of, keys) : 0;
  }
}

/// `rows` rows of d elements that lie on the GPU.
template <class T>
std::vector<T> download(const T* from, std::int64_t pitch, int rows, int d) {
  std::vector<T> all(static_cast<std::size_t>(rows) * static_cast<std::size_t>(d));
  const std::size_t size = static_cast<std::size_t>(d) * sizeof(T);
  LADDER_CUDA(cudaMemcpy2D(all.data(), size, from, static_cast<std::size_t>(pitch) * sizeof(T),
                           size, static_cast<std::size_t>(rows), cudaMemcpyDeviceToHost));
  return all;
}

/// Compares a few rows of sequences of one length with the CPU's.
template <class T>
void expect_samples(const attention::Args<T>& a, bool causal, ladder::AnswerOnGpu o,
                    ladder::AnswerOnGpu lse) {
  if (a.query_starts != nullptr) return;
  constexpr int kSamples = 5;
  for (int sample = 0; sample < kSamples; ++sample) {
    const int sequence = sample * (a.batch - 1) / (kSamples - 1);
    const int head = (sample * 3 % kSamples) * (a.heads - 1) / (kSamples - 1);
    const int row = sample * (a.queries - 1) / (kSamples - 1),
              kv_head = head / (a.heads / a.kv_heads);
    const int diagonal = a.top_left ? 0 : a.keys - a.queries;
    const int seen = causal ? std::clamp(row + diagonal + 1, 0, a.keys) : a.keys;
    const std::int64_t k_at = sequence * a.k_strides.batch + kv_head * a.k_strides.head;
    const std::int64_t q_at =
        sequence * a.q_strides.batch + head * a.q_strides.head + row * a.q_strides.row;
    const std::int64_t lse_at = sequence * a.lse_strides.batch + head * a.lse_strides.head + row;
    const auto rows_of = [&](const T* data) {
      return widened(download(data + k_at, a.k_strides.row, seen, a.d).data(), seen, a.d, a.d);
    };
    const auto q = download(a.q + q_at, a.d, 1, a.d);
    const Answer expected(q.data(), rows_of(a.k), rows_of(a.v), seen, a.d);
    const auto expect = [&](const double* on_gpu, std::int64_t at, double value) {
      const double found = download(on_gpu + at, 1, 1, 1).front();
      if (found == value || std::abs(found - value) <= 1e-9 * (1 + std::abs(value))) return;
      throw std::runtime_error("the fp64 reference on the GPU differs from the CPU's in head " +
                               std::to_string(head) + " of sequence " + std::to_string(sequence) +
                               ", query " + std::to_string(row));
    };
    for (int i = 0; i < a.d; ++i) {
      expect(o.values, q_at + i, expected.value[static_cast<std::size_t>(i)]);
      expect(o.magnitude, q_at + i, expected.limit[static_cast<std::size_t>(i)]);
    }
    expect(lse.values, lse_at, expected.lse);
    expect(lse.magnitude, lse_at, expected.limit_of_its_lse);
  }
}

}  // namespace

template <class T>
void forward_on_gpu(const attention::Args<T>& a, bool causal, ladder::AnswerOnGpu o,
                    ladder::AnswerOnGpu lse) {
  with_head_size(a.d, [&](auto d) {
    constexpr int D = decltype(d)::value;
    const auto kernel = causal ? answer<attention_causal, T, D> : answer<attention, T, D>;
    kernel<<<query_tiles(a, kRows), kThreads>>>(a, o, lse);
  });
  LADDER_CUDA(cudaGetLastError());
  LADDER_CUDA(cudaDeviceSynchronize());
  expect_samples(a, causal, o, lse);
}

#define LADDER_REFERENCE(T)                                                          \
  template void forward_on_gpu(const attention::Args<T>&, bool, ladder::AnswerOnGpu, \
                               ladder::AnswerOnGpu)
LADDER_REFERENCE(ladder::half);
LADDER_REFERENCE(ladder::bfloat16);

}  // namespace attention_reference
