// The right gradients in fp64, and how far a correct kernel may be from them. Included by
// backward.cpp.
//
// The answer is the gradient itself, of q, k, v and d_o: o and lse are made of q, k and v, and what
// their roundings do is part of the limit. Of query i and key j, s the score, p the weight,
// dp = d_o . v, ds = p (dp - delta), a correct kernel's are off by:
//
//   p        relatively error(s): the product q . k, the factors and roundings of s and lse, lse's
//            own rounding, the exponential
//   dp       products(d) |d_o| |v|, a bound of the sum of its terms' magnitudes
//   delta    of rounded o: shift[i] = d_o[i] . (o[i] - the exact one), which is known. And
//            additions(d) sum |d_o o|, or as the sum of p dp: of p |dp| (error(s) + additions(n)),
//            and of p and dp's error
//   ds       relatively error(s) and 4 roundings, and by p times the errors of dp and of delta
//
//   dv       output's rounding                   u_T |dv|
//            p's rounding to T, before the product: u_T p[i][j] at most. As independent, uniformly
//            distributed numbers their sum over i is normal, with a standard deviation below
//                                                u_T / sqrt(3) sqrt(sum of (p d_o)^2),
//            of which 7 are allowed; of n numbers at most sqrt(n) u_T sqrt(sum of (p d_o)^2). Those
//            of weights that are the same are too, relatively: u_T |dv| more
//            the weights' errors, the product    sum of p (error(s) + products(n)) |d_o|
//   dk       output's rounding, and that of ds to T, likewise of ds q
//            ds's errors, the product            sum of (error(ds) + products(n) |ds|) |q|
//            the shift                           |sum of p shift q|, all of it or nothing
//   dq       as dk with k for q, and fp32's roundings where parts of the sum are added up in any
//            order, 16 keys each at least        n / 16 u sum of |ds k|
//
// In f16 a p below 2^-14 is off by up to 2^-25 whatever its size, in bf16 below 2^-126 by 2^-134,
// and so are a gradient and a ds, which may have been multiplied by the scores' factor 1 / sqrt(d)
// before (cuDNN's is). Before they are rounded, those below 2^-126 are off by as much, because an
// exponential or fp32 itself has none that are less.
#pragma once

#include "reference.hpp"

namespace attention_reference {

constexpr double kLeast = 0x1p-126;  // of fp32's numbers that have all digits

/// What the weights of a query and their gradients have in common, and their limits.
struct Query {
  double q_norm = 0, d_o_norm = 0, lse = -INFINITY;
  double delta = 0, delta_error = 0;
  double shift = 0;  ///< of delta, where it is made of rounded o

  /// Adds to delta a key of the `seen` ones.
  template <class Pair>
  __host__ __device__ void add(const Pair& pair, double seen) {
    delta += pair.p * pair.dp;
    delta_error += pair.p * ((pair.error + additions(seen)) * fabs(pair.dp) + pair.dp_error);
  }
  /// With d_o . o, and the sum of its terms' magnitudes.
  __host__ __device__ void compare(double of_o, double terms, double d) {
    shift = delta - of_o;
    delta_error = fmax(delta_error, additions(d) * terms);
  }
};

/// What a row of a sum is multiplied by: it is off by up to `rounding` where it is rounded, by up to
/// `error` in all, and by `moved` in one direction.
struct Factor {
  double value, rounding, error, moved;
};

/// A query and a key that it sees: the weight, its gradient, and what they are off by.
struct Pair {
  double p, dp, error, dp_error, root_of_d;

  __host__ __device__ Pair(const Query& query, double s, double dp_of_pair, double k_norm,
                           double v_norm, double d)
      : p(exp(s - query.lse)),
        dp(dp_of_pair),
        // The score's factors, lse's rounding and factor, their difference, and the exponential:
        // exp2 is off by 2^-22.5.
        error(products(d) * query.q_norm * k_norm / sqrt(d) +
              (5 * fabs(s) + 4 * fabs(query.lse) + 4) * kU),
        dp_error(products(d) * query.d_o_norm * v_norm),
        root_of_d(sqrt(d)) {}

  /// Of d_o's row in dv, one of so many.
  template <class T>
  __host__ __device__ Factor of_d_o(double summed) const {
    return {p, rounding<T>() * p + kLeastStep<T>, p * (error + products(summed)) + kLeast, 0};
  }
  /// Of q's row in dk, one of so many.
  template <class T>
  __host__ __device__ Factor of_q(const Query& query, double summed) const {
    return of_ds<T>(query, products(summed));
  }
  /// Of k's row in dq, one of so many.
  template <class T>
  __host__ __device__ Factor of_k(const Query& query, double summed) const {
    return of_ds<T>(query, products(summed) + summed / 16 * kU);
  }

 private:
  template <class T>
  __host__ __device__ Factor of_ds(const Query& query, double of_sum) const {
    const double difference = dp - query.delta, ds = p * difference, moved = p * query.shift;
    const double most = fabs(ds) + fabs(moved);
    const double ds_error = most * (error + 4 * kU) + p * (dp_error + query.delta_error) +
                            kLeast * (fabs(difference) + 1);
    return {ds, rounding<T>() * most + kLeastStep<T> * root_of_d, ds_error + of_sum * most, moved};
  }
};

/// An element of a gradient, and what its limit is made of.
struct Sum {
  double value = 0, squares = 0, errors = 0, shift = 0;

  /// Adds a factor times an element.
  __host__ __device__ void add(const Factor& factor, double x) {
    value += factor.value * x;
    squares += factor.rounding * x * (factor.rounding * x);
    errors += factor.error * fabs(x);
    shift += factor.moved * x;
  }
  /// What n numbers' sum may be off by.
  __host__ __device__ double magnitude(double n) const {
    return fmin(sqrt(n), kDeviations / sqrt(3.0)) * sqrt(squares) + errors + fabs(shift);
  }
};
template <class T>
__host__ __device__ double limit_of_dv(const Sum& dv, double n) {
  return dv.magnitude(n) + rounding<T>() * fabs(dv.value);
}

/// A query on the CPU, with the keys that it sees.
struct QueryRow : Query {
  std::vector<Pair> pairs;

  /// Of rows of d numbers; k and v are the first `seen` keys' and values', behind them norms.
  QueryRow(const std::vector<double>& q, const std::vector<double>& d_o,
           const std::vector<double>& o, const double* k, const double* v, const double* k_norms,
           const double* v_norms, int seen) {
    const std::size_t d = q.size(), n = static_cast<std::size_t>(seen);
    const auto size = static_cast<double>(d);
    q_norm = norm(q.data(), d);
    d_o_norm = norm(d_o.data(), d);
    std::vector<double> s(n);
    double max = -INFINITY, sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      s[j] = dot(q.data(), k + j * d, d) / std::sqrt(size);
      max = std::max(max, s[j]);
    }
    for (const double score : s) sum += std::exp(score - max);
    if (n > 0) lse = max + std::log(sum);
    pairs.reserve(n);
    for (std::size_t j = 0; j < n; ++j) {
      pairs.emplace_back(*this, s[j], dot(d_o.data(), v + j * d, d), k_norms[j], v_norms[j], size);
      add(pairs.back(), seen);
    }
    double terms = 0;
    for (std::size_t i = 0; i < d; ++i) terms += std::abs(d_o[i] * o[i]);
    compare(dot(d_o.data(), o.data(), d), terms, size);
  }

  static double dot(const double* x, const double* y, std::size_t d) {
    double sum = 0;
    for (std::size_t i = 0; i < d; ++i) sum += x[i] * y[i];
    return sum;
  }
  static double norm(const double* x, std::size_t d) { return std::sqrt(dot(x, x, d)); }
};

/// Of each of some rows of d numbers.
inline std::vector<double> norms(const std::vector<double>& rows, std::size_t d) {
  std::vector<double> all;
  for (std::size_t at = 0; at < rows.size(); at += d) all.push_back(QueryRow::norm(&rows[at], d));
  return all;
}

/// The rows of a sequence, of a head of keys.
struct Rows {
  int queries, keys, diagonal;
  bool causal;

  Rows(const attention::Problem& p, const attention_layout::Layout& at, bool is_causal, int b)
      : queries(at.queries(b)),
        keys(at.keys(b)),
        diagonal(p.top_left ? 0 : keys - queries),
        causal(is_causal) {}
  int seen(int row) const { return causal ? std::clamp(row + diagonal + 1, 0, keys) : keys; }
};

template <class F>
void for_each_head(int batch, int heads, F f) {
  const auto of_sequence = static_cast<std::size_t>(heads);
  ladder::parallel_for(static_cast<std::size_t>(batch) * of_sequence, 1,
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t i = begin; i < end; ++i) {
                           f(static_cast<int>(i / of_sequence), static_cast<int>(i % of_sequence));
                         }
                       });
}

/// o and lse as a kernel that makes no errors writes them.
template <class T>
void fill_forward(const attention::Problem& p, bool causal, const T* q, const T* k, const T* v,
                  T* o, float* lse) {
  const attention_layout::Layout at(p);
  const auto d = static_cast<std::size_t>(p.d);
  for_each_head(p.batch, p.heads, [&](int b, int h) {
    const Rows rows(p, at, causal, b);
    const std::size_t first_key = at.key_row(b, h / (p.heads / p.kv_heads), 0);
    const auto wide_k = widened(k + first_key, rows.keys, at.k_strides().row, p.d);
    const auto wide_v = widened(v + first_key, rows.keys, at.k_strides().row, p.d);
    for (int row = 0; row < rows.queries; ++row) {
      const std::size_t o_at = at.query_row(b, h, row);
      const Answer answer(q + o_at, wide_k, wide_v, rows.seen(row), p.d);
      for (std::size_t i = 0; i < d; ++i) o[o_at + i] = T(static_cast<float>(answer.value[i]));
      lse[at.lse_of(b, h, row)] = static_cast<float>(answer.lse);
    }
  });
}

/// Adds a factor times a row of d numbers.
inline void add(Sum* sums, const Factor& factor, const double* row, std::size_t d) {
  for (std::size_t i = 0; i < d; ++i) sums[i].add(factor, row[i]);
}

/// dq, dk and dv.
template <class T>
std::vector<ladder::Expected> backward(const attention::Problem& p, bool causal, const T* q,
                                       const T* k, const T* v, const T* o, const T* d_o) {
  const attention_layout::Layout at(p);
  ladder::Expected dq = ladder::zeros(at.q_size());
  ladder::Expected dk = ladder::zeros(at.k_size());
  ladder::Expected dv = ladder::zeros(at.k_size());
  const auto d = static_cast<std::size_t>(p.d);
  const double scale = 1 / std::sqrt(static_cast<double>(p.d));

  for_each_head(p.batch, p.kv_heads, [&](int b, int kv_head) {
    const Rows rows(p, at, causal, b);
    const auto keys = static_cast<std::size_t>(rows.keys);
    const std::size_t first_key = at.key_row(b, kv_head, 0);
    const auto wide_k = widened(k + first_key, rows.keys, at.k_strides().row, p.d);
    const auto wide_v = widened(v + first_key, rows.keys, at.k_strides().row, p.d);
    const auto k_norms = norms(wide_k, d), v_norms = norms(wide_v, d);
    std::vector<Sum> of_k(keys * d), of_v(keys * d);
    const int group = p.heads / p.kv_heads;
    // How many queries a key's sums have, at most; a row of them has as many keys as it sees.
    const double summed = static_cast<double>(rows.queries) * group;

    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      for (int row = 0; row < rows.queries; ++row) {
        const std::size_t q_at = at.query_row(b, h, row);
        const auto wide_q = widened(q + q_at, 1, 0, p.d), wide_d_o = widened(d_o + q_at, 1, 0, p.d);
        const QueryRow query(wide_q, wide_d_o, widened(o + q_at, 1, 0, p.d), wide_k.data(),
                             wide_v.data(), k_norms.data(), v_norms.data(), rows.seen(row));
        const auto seen = static_cast<double>(query.pairs.size());
        std::vector<Sum> of_q(d);
        for (std::size_t j = 0; j < query.pairs.size(); ++j) {
          const Pair& pair = query.pairs[j];
          add(&of_v[j * d], pair.of_d_o<T>(summed), wide_d_o.data(), d);
          add(&of_k[j * d], pair.of_q<T>(query, summed), wide_q.data(), d);
          add(of_q.data(), pair.of_k<T>(query, seen), &wide_k[j * d], d);
        }
        for (std::size_t i = 0; i < d; ++i) {
          dq.values[q_at + i] = scale * of_q[i].value;
          dq.magnitude[q_at + i] = scale * of_q[i].magnitude(seen);
        }
      }
    }
    for (int row = 0; row < rows.keys; ++row) {
      const std::size_t from = static_cast<std::size_t>(row) * d, to = at.key_row(b, kv_head, row);
      for (std::size_t i = 0; i < d; ++i) {
        dk.values[to + i] = scale * of_k[from + i].value;
        dk.magnitude[to + i] = scale * of_k[from + i].magnitude(summed);
        dv.values[to + i] = of_v[from + i].value;
        dv.magnitude[to + i] = limit_of_dv<T>(of_v[from + i], summed);
      }
    }
  });
  return ladder::answers(std::move(dq), std::move(dk), std::move(dv));
}

/// The same on a GPU, where all of a's pointers are; some rows are checked against the CPU's. And o
/// and lse of a, which backward reads. Throw std::runtime_error when CUDA fails, or a row is wrong.
template <class T>
void backward_on_gpu(const attention_backward::Args<T>& a, bool causal, ladder::AnswerOnGpu dq,
                     ladder::AnswerOnGpu dk, ladder::AnswerOnGpu dv);
template <class T>
void fill_forward_on_gpu(const attention::Args<T>& a, bool causal);

}  // namespace attention_reference
