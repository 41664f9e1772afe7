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
// In f16 a p or ds below 2^-14 is off by up to 2^-25 whatever its size, before it is rounded one below
// 2^-126 by as much, because an exponential or fp32 itself has none that are less.
#pragma once

#include "reference.hpp"

namespace attention_reference {

constexpr double kLeast = 0x1p-126;  // of fp32's numbers that have all digits

/// A query's weights, the first `seen` of its row; their log-sum-exp.
struct Weights {
  std::vector<double> s, p;
  double lse = -std::numeric_limits<double>::infinity();

  void of(const double* q, const double* k, int seen, std::size_t d) {
    const auto n = static_cast<std::size_t>(seen);
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    s.resize(n);
    p.resize(n);
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      double product = 0;
      for (std::size_t i = 0; i < d; ++i) product += q[i] * k[j * d + i];
      s[j] = product * scale;
      max = std::max(max, s[j]);
    }
    for (std::size_t j = 0; j < n; ++j) sum += p[j] = std::exp(s[j] - max);
    for (double& weight : p) weight /= sum;
    lse = n > 0 ? max + std::log(sum) : -std::numeric_limits<double>::infinity();
  }
};

/// The rows of a sequence, of a head of keys.
struct Rows {
  int queries, keys, diagonal;
  bool causal;

  Rows(const attention::Problem& p, const attention_problem::Layout& at, bool is_causal, int b)
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
  const attention_problem::Layout at(p);
  const auto d = static_cast<std::size_t>(p.d);
  for_each_head(p.batch, p.heads, [&](int b, int h) {
    const Rows rows(p, at, causal, b);
    const std::size_t first_key = at.key_row(b, h / (p.heads / p.kv_heads), 0);
    const auto wide_k = widened(k + first_key, rows.keys, at.k_strides().row, p.d);
    const auto wide_v = widened(v + first_key, rows.keys, at.k_strides().row, p.d);
    Weights weights;
    for (int row = 0; row < rows.queries; ++row) {
      const std::size_t o_at = at.query_row(b, h, row);
      weights.of(widened(q + o_at, 1, 0, p.d).data(), wide_k.data(), rows.seen(row), d);
      std::vector<double> sum(d);
      for (std::size_t j = 0; j < weights.p.size(); ++j) {
        for (std::size_t i = 0; i < d; ++i) sum[i] += weights.p[j] * wide_v[j * d + i];
      }
      for (std::size_t i = 0; i < d; ++i) o[o_at + i] = T(static_cast<float>(sum[i]));
      lse[at.lse_of(b, h, row)] = static_cast<float>(weights.lse);
    }
  });
}

/// A gradient's row, and what its limit is made of.
struct Gradient {
  std::vector<double> value, squares, errors, shift;
  explicit Gradient(std::size_t size) : value(size), squares(size), errors(size), shift(size) {}

  /// Adds a row of d numbers times a factor, which is off by up to `rounding` where it is rounded, by
  /// up to `error` in all, and by `moved` in one direction.
  void add(std::size_t at, const double* row, std::size_t d, double factor, double rounding,
           double error, double moved) {
    double *const to = &value[at], *const square = &squares[at], *const off = &errors[at],
                  *const away = &shift[at];
    for (std::size_t i = 0; i < d; ++i) {
      const double x = row[i];
      to[i] += factor * x;
      square[i] += rounding * x * (rounding * x);
      off[i] += error * std::abs(x);
      away[i] += moved * x;
    }
  }
  /// What n numbers' sum may be off by.
  double magnitude(std::size_t i, double n) const {
    return std::min(std::sqrt(n), kDeviations / std::sqrt(3.0)) * std::sqrt(squares[i]) +
           errors[i] + std::abs(shift[i]);
  }
};

/// dq, dk and dv.
template <class T>
std::vector<ladder::Expected> backward(const attention::Problem& p, bool causal, const T* q,
                                       const T* k, const T* v, const T* o, const T* d_o) {
  const attention_problem::Layout at(p);
  ladder::Expected dq{ladder::filled(at.q_size()), ladder::filled(at.q_size())};
  ladder::Expected dk{ladder::filled(at.k_size()), ladder::filled(at.k_size())};
  ladder::Expected dv{ladder::filled(at.k_size()), ladder::filled(at.k_size())};
  const auto d = static_cast<std::size_t>(p.d);
  const double scale = 1 / std::sqrt(static_cast<double>(p.d));
  const double u = rounding<T>(), step = kLeastStep<T>;

  for_each_head(p.batch, p.kv_heads, [&](int b, int kv_head) {
    const Rows rows(p, at, causal, b);
    const auto keys = static_cast<std::size_t>(rows.keys);
    const std::size_t first_key = at.key_row(b, kv_head, 0);
    const auto wide_k = widened(k + first_key, rows.keys, at.k_strides().row, p.d);
    const auto wide_v = widened(v + first_key, rows.keys, at.k_strides().row, p.d);
    const auto norms = [&](const std::vector<double>& of) {
      std::vector<double> all;
      for (std::size_t at_row = 0; at_row < of.size(); at_row += d) {
        double sum = 0;
        for (std::size_t i = 0; i < d; ++i) sum += of[at_row + i] * of[at_row + i];
        all.push_back(std::sqrt(sum));
      }
      return all;
    };
    const auto k_norms = norms(wide_k), v_norms = norms(wide_v);
    Gradient of_k(keys * d), of_v(keys * d);
    const int group = p.heads / p.kv_heads;
    // How many queries a key's sums have, at most; a row of them has as many keys as it sees.
    const double summed = static_cast<double>(rows.queries) * group;

    Weights weights;
    std::vector<double> dp(keys), error(keys), dp_error(keys);
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      for (int row = 0; row < rows.queries; ++row) {
        const std::size_t q_at = at.query_row(b, h, row);
        const auto wide_q = widened(q + q_at, 1, 0, p.d), wide_d_o = widened(d_o + q_at, 1, 0, p.d);
        const auto wide_o = widened(o + q_at, 1, 0, p.d);
        weights.of(wide_q.data(), wide_k.data(), rows.seen(row), d);
        const std::size_t seen = weights.p.size();
        if (seen == 0) continue;
        const double n = static_cast<double>(seen), lse = std::abs(weights.lse);
        const double q_norm = norms(wide_q)[0], d_o_norm = norms(wide_d_o)[0];

        double delta = 0, delta_error = 0;
        for (std::size_t j = 0; j < seen; ++j) {
          dp[j] = 0;
          for (std::size_t i = 0; i < d; ++i) dp[j] += wide_d_o[i] * wide_v[j * d + i];
          dp_error[j] = products(p.d) * d_o_norm * v_norms[j];
          // The score's factors, lse's rounding and factor, their difference, and the exponential:
          // exp2 is off by 2^-22.5.
          error[j] = products(p.d) * q_norm * k_norms[j] * scale +
                     (5 * std::abs(weights.s[j]) + 4 * lse + 4) * kU;
          delta += weights.p[j] * dp[j];
          delta_error += weights.p[j] * ((error[j] + additions(n)) * std::abs(dp[j]) + dp_error[j]);
        }
        double of_o = 0, of_o_terms = 0;
        for (std::size_t i = 0; i < d; ++i) {
          of_o += wide_d_o[i] * wide_o[i];
          of_o_terms += std::abs(wide_d_o[i] * wide_o[i]);
        }
        const double shift = delta - of_o;
        delta_error = std::max(delta_error, additions(p.d) * of_o_terms);

        Gradient of_q(d);
        for (std::size_t j = 0; j < seen; ++j) {
          const double weight = weights.p[j], difference = dp[j] - delta, ds = weight * difference;
          const double moved = weight * shift, most = std::abs(ds) + std::abs(moved);
          const double ds_error = most * (error[j] + 4 * kU) +
                                  weight * (dp_error[j] + delta_error) +
                                  kLeast * (std::abs(difference) + 1);
          of_v.add(j * d, wide_d_o.data(), d, weight, u * weight + step,
                   weight * (error[j] + products(summed)) + kLeast, 0);
          of_k.add(j * d, wide_q.data(), d, ds, u * most + step, ds_error + products(summed) * most,
                   moved);
          of_q.add(0, &wide_k[j * d], d, ds, u * most + step,
                   ds_error + (products(n) + n / 16 * kU) * most, moved);
        }
        for (std::size_t i = 0; i < d; ++i) {
          dq.values[q_at + i] = scale * of_q.value[i];
          dq.magnitude[q_at + i] = scale * of_q.magnitude(i, n);
        }
      }
    }
    for (int row = 0; row < rows.keys; ++row) {
      const std::size_t from = static_cast<std::size_t>(row) * d, to = at.key_row(b, kv_head, row);
      for (std::size_t i = 0; i < d; ++i) {
        dk.values[to + i] = scale * of_k.value[from + i];
        dk.magnitude[to + i] = scale * of_k.magnitude(from + i, summed);
        dv.values[to + i] = of_v.value[from + i];
        dv.magnitude[to + i] =
            of_v.magnitude(from + i, summed) + u * std::abs(of_v.value[from + i]);
      }
    }
  });
  std::vector<ladder::Expected> all;
  all.push_back(std::move(dq));
  all.push_back(std::move(dk));
  all.push_back(std::move(dv));
  return all;
}

}  // namespace attention_reference
