// The kernels of the references on the GPU, in fp64. Included by reference.cu, and by a test that runs
// them on the host executor.
#pragma once

#include "backward_head.hpp"
#include "backward_reference.hpp"

namespace attention_reference {

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

/// Rounds o and lse to what a kernel that makes no errors writes.
template <class T>
__global__ void rounded(attention::Args<T> a, const double* o, const double* lse) {
  const std::int64_t rows = a.all_queries * a.heads, step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * a.d;
       i += step) {
    a.o[i] = T(static_cast<float>(o[i]));
    if (i < rows) a.lse[i] = static_cast<float>(lse[i]);
  }
}

/// x . y and y . y, of elements of T.
struct Products {
  double dot = 0, square = 0;
};
template <int D, class T>
__device__ Products multiply(const T* x, const T* y) {
  Products sums;
  for (int i = 0; i < D; ++i) {
    const double of_y = ladder::widen(y[i]);
    sums.dot += ladder::widen(x[i]) * of_y;
    sums.square += of_y * of_y;
  }
  return sums;
}

/// Brings rows of d elements, as many of kMost as exist; the others are zero.
template <int kMost, int D, int kPitch, class T>
__device__ void load_rows(T (&to)[kMost][kPitch], const T* from, std::int64_t pitch, int row0,
                          int rows) {
  for (int i = threadIdx.x; i < kMost * D; i += kThreads) {
    const int row = row0 + i / D;
    to[i / D][i % D] = row < rows ? from[row * pitch + i % D] : T(0.0f);
  }
}

/// dq, and what the other gradients need to know of the queries. A block has kRows of them, a warp
/// one, and goes through the keys three times, kKeys at a time, of which a lane has one: for lse; for
/// delta; for dq, of which a thread has one column, for some of the queries.
template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    of_queries(attention_backward::Args<T> a, Query* queries, ladder::AnswerOnGpu dq) {
  constexpr int kSums = kRows * D / kThreads;
  __shared__ T q[kRows][D], d_o[kRows][D], k[kKeys][D + 2], v[kKeys][D + 2];
  __shared__ Factor factor[kRows][kKeys];
  const BackwardHead<T> head(a, blockIdx.y, blockIdx.z);
  const int row0 = blockIdx.x * kRows, row = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row0 >= head.queries) return;
  load_rows<kRows, D>(q, head.q, head.q_pitch, row0, head.queries);
  load_rows<kRows, D>(d_o, head.d_o, head.q_pitch, row0, head.queries);

  const double scale = 1 / sqrt(static_cast<double>(D));
  const bool exists = row0 + row < head.queries;
  const int seen = exists ? head.template visible<Op>(row0 + row) : 0;
  const int end = head.template visible<Op>(min(row0 + kRows, head.queries) - 1);
  const auto for_each_tile = [&](auto f) {
    for (int key0 = 0; key0 < end; key0 += kKeys) {
      __syncthreads();
      load_rows<kKeys, D>(k, head.k, head.k_pitch, key0, head.keys);
      load_rows<kKeys, D>(v, head.v, head.k_pitch, key0, head.keys);
      __syncthreads();
      f(key0 + lane < seen);
    }
  };
  Query query;
  const auto pair = [&] {
    const Products of_k = multiply<D>(q[row], k[lane]), of_v = multiply<D>(d_o[row], v[lane]);
    return Pair(query, of_k.dot * scale, of_v.dot, sqrt(of_k.square), sqrt(of_v.square), D);
  };

  double max = -INFINITY, sum = 0;
  for_each_tile([&](bool is_seen) {
    const double s = is_seen ? multiply<D>(q[row], k[lane]).dot * scale : -INFINITY;
    const double new_max = fmax(max, max_of_warp(s)), from = new_max == -INFINITY ? 0 : new_max;
    sum = sum * exp(max - from) + sum_of_warp(exp(s - from));
    max = new_max;
  });
  if (seen > 0) query.lse = max + log(sum);
  __syncthreads();  // where there are no keys
  query.q_norm = sqrt(multiply<D>(q[row], q[row]).square);
  query.d_o_norm = sqrt(multiply<D>(d_o[row], d_o[row]).square);

  for_each_tile([&](bool is_seen) {
    if (is_seen) query.add(pair(), seen);
  });
  query.delta = sum_of_warp(query.delta);
  query.delta_error = sum_of_warp(query.delta_error);
  double of_o = 0, of_o_terms = 0;
  for (int i = lane; i < D && exists; i += 32) {
    const double term =
        ladder::widen(d_o[row][i]) * ladder::widen(head.o[(row0 + row) * head.q_pitch + i]);
    of_o += term;
    of_o_terms += fabs(term);
  }
  query.compare(sum_of_warp(of_o), sum_of_warp(of_o_terms), D);
  if (lane == 0 && exists) queries[head.first_row + row0 + row] = query;

  const int column = threadIdx.x % D, first = threadIdx.x / D * kSums;
  Sum sums[kSums];
  for_each_tile([&](bool is_seen) {
    factor[row][lane] = is_seen ? pair().template of_k<T>(query, seen) : Factor{};
    __syncthreads();
    for (int j = 0; j < kKeys; ++j) {
      const double x = ladder::widen(k[j][column]);
#pragma unroll
      for (int r = 0; r < kSums; ++r) sums[r].add(factor[first + r][j], x);
    }
  });
#pragma unroll
  for (int r = 0; r < kSums; ++r) {
    const int to = row0 + first + r;
    if (to >= head.queries) continue;
    const std::int64_t at = head.q - a.q + to * head.q_pitch + column;
    dq.values[at] = scale * sums[r].value;
    dq.magnitude[at] = scale * sums[r].magnitude(head.template visible<Op>(to));
  }
}

/// dk and dv. A block has kRows keys, a warp one, and goes through the queries of all heads that share
/// them, kKeys at a time, of which a lane has one.
template <class Op, class T, int D>
__global__ void __launch_bounds__(kThreads)
    of_keys(attention_backward::Args<T> a, const Query* queries, ladder::AnswerOnGpu dk,
            ladder::AnswerOnGpu dv) {
  constexpr int kSums = kRows * D / kThreads;
  __shared__ T k[kRows][D], v[kRows][D], q[kKeys][D + 2], d_o[kKeys][D + 2];
  __shared__ Factor of_q[kRows][kKeys], of_d_o[kRows][kKeys];
  const int group = a.heads / a.kv_heads, head0 = blockIdx.y * group;
  const BackwardHead<T> own(a, head0, blockIdx.z);
  const std::int64_t first_key = own.k - a.k;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < std::int64_t{own.key_rows - own.keys} * D; i += std::int64_t{gridDim.x} * kThreads) {
    const std::int64_t at = first_key + (own.keys + i / D) * own.k_pitch + i % D;
    dk.values[at] = dk.magnitude[at] = dv.values[at] = dv.magnitude[at] = 0;
  }
  const int row0 = blockIdx.x * kRows, row = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row0 >= own.keys) return;
  load_rows<kRows, D>(k, own.k, own.k_pitch, row0, own.keys);
  load_rows<kRows, D>(v, own.v, own.k_pitch, row0, own.keys);
  __syncthreads();

  const double scale = 1 / sqrt(static_cast<double>(D));
  const double k_norm = sqrt(multiply<D>(k[row], k[row]).square);
  const double v_norm = sqrt(multiply<D>(v[row], v[row]).square);
  const double summed = static_cast<double>(own.queries) * group;
  const int column = threadIdx.x % D, first = threadIdx.x / D * kSums;
  Sum of_k[kSums], of_v[kSums];
  for (int h = head0; h < head0 + group; ++h) {
    const BackwardHead<T> head(a, h, blockIdx.z);
    for (int query0 = 0; query0 < head.queries; query0 += kKeys) {
      const int last = min(query0 + kKeys, head.queries) - 1;
      if (head.template visible<Op>(last) <= row0) continue;  // nobody sees these keys
      __syncthreads();
      load_rows<kKeys, D>(q, head.q, head.q_pitch, query0, head.queries);
      load_rows<kKeys, D>(d_o, head.d_o, head.q_pitch, query0, head.queries);
      __syncthreads();
      const bool is_seen = row0 + row < own.keys && query0 + lane < head.queries &&
                           row0 + row < head.template visible<Op>(query0 + lane);
      Factor by_q{}, by_d_o{};
      if (is_seen) {
        const Query query = queries[head.first_row + query0 + lane];
        const Pair pair(query, multiply<D>(k[row], q[lane]).dot * scale,
                        multiply<D>(v[row], d_o[lane]).dot, k_norm, v_norm, D);
        by_q = pair.template of_q<T>(query, summed);
        by_d_o = pair.template of_d_o<T>(summed);
      }
      of_q[row][lane] = by_q;
      of_d_o[row][lane] = by_d_o;
      __syncthreads();
      for (int j = 0; j < kKeys; ++j) {
        const double x = ladder::widen(q[j][column]), y = ladder::widen(d_o[j][column]);
#pragma unroll
        for (int r = 0; r < kSums; ++r) {
          of_k[r].add(of_q[first + r][j], x);
          of_v[r].add(of_d_o[first + r][j], y);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kSums; ++r) {
    const int to = row0 + first + r;
    if (to >= own.keys) continue;
    const std::int64_t at = first_key + to * own.k_pitch + column;
    dk.values[at] = scale * of_k[r].value;
    dk.magnitude[at] = scale * of_k[r].magnitude(summed);
    dv.values[at] = of_v[r].value;
    dv.magnitude[at] = limit_of_dv<T>(of_v[r], summed);
  }
}

}  // namespace attention_reference
