// The right answers in fp64, and how far a correct kernel may be from them. Included by family.cpp.
//
// What a correct kernel's o is off by, of a query with scores s[j], p[j] = exp(s[j] - max) and their
// sum L:
//
//   rounding of o to its type T            u_T |o|
//   of each p[j] to T, before the second product: u_T p[j] at most. As independent, uniformly
//   distributed numbers their sum is normal, with a standard deviation below
//                                          u_T / sqrt(3) sqrt(sum of (p[j] v[j])^2) / L,
//   of which 7 are allowed (of 10^8 elements one in a hundred problems has one beyond 6); at most
//   all of them in one direction           u_T sum of p[j] |v[j]| / L
//   of each p[j], relatively               error(s[j]), which moves o by
//                                          sum of p[j] error(s[j]) |v[j] - o| / L
//   the products with V                    products(n) sum of p[j] |v[j]| / L
//   L                                      additions(n) |o|
//
// and lse by the mean of error(s[j]), weighted by p[j], additions(n), and the roundings of its terms.
// In f16 a p[j] below 2^-14 is off by up to 2^-25 whatever its size.
#pragma once

#include "harness/family.hpp"
#include "problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attention_reference {

constexpr double kU = 0x1p-24;     // fp32's unit roundoff
constexpr double kDeviations = 7;  // that a sum of roundings may be off by

/// The error of n products' sum on tensor cores, times the sum of their magnitudes: see gemm_tensor's
/// family.cpp.
inline double products(double n) { return std::min(2 * n, 13 * std::sqrt(n)) * 0x1p-23; }

/// The same of a sum of n positive numbers, one by one in fp32, and of the factors that move it to
/// another maximum, one for 16 numbers at most (softmax/reference.hpp).
inline double additions(double n) { return (std::min(n, 8 * std::sqrt(n)) + n / 16 + 4) * kU; }

template <class T>
double rounding() {
  return ladder::unit_roundoff(ladder::DTypeOf<T>::value);
}

/// By what a p[j] in f16 is off where it has fewer digits.
template <class T>
constexpr double kLeastStep = ladder::DTypeOf<T>::value == ladder::DType::f16 ? 0x1p-25 : 0;

template <class T>
ladder::Tolerance tolerance() {
  return {.relative = rounding<T>(), .scaled = 1, .absolute = kLeastStep<T>};
}

/// Rows of fp64.
template <class T>
std::vector<double> widened(const T* row, int rows, std::int64_t pitch, int d) {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(rows) * static_cast<std::size_t>(d));
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < d; ++i) all.push_back(ladder::widen(row[r * pitch + i]));
  }
  return all;
}

/// A query's scores: s[j] with the error that a kernel's may have, then p[j] in its place.
struct Scores {
  std::vector<double> p, error;
  double max = -std::numeric_limits<double>::infinity(), sum = 0;

  /// Of the first `seen` keys.
  template <class T>
  Scores(const T* q, const std::vector<double>& k, int seen, int d) {
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    for (int j = 0; j < seen; ++j) {
      double s = 0, magnitude = 0;
      for (int i = 0; i < d; ++i) {
        const double product = ladder::widen(q[i]) * k[static_cast<std::size_t>(j * d + i)];
        s += product;
        magnitude += std::abs(product);
      }
      p.push_back(s * scale);
      error.push_back(magnitude * scale * products(d));
      max = std::max(max, p.back());
    }
    for (std::size_t j = 0; j < p.size(); ++j) {
      // The factors of a score and of the maximum, the difference, and the exponential: exp2 is off
      // by 2^-22.5, and by the rounding of what it is of.
      error[j] += (4 * std::abs(p[j]) + 4 * std::abs(max) + 4) * kU;
      p[j] = std::exp(p[j] - max);
      sum += p[j];
    }
  }
};

/// o and lse.
template <class T>
std::vector<ladder::Expected> forward(const attention::Problem& p, bool causal, const T* q,
                                      const T* k, const T* v) {
  const attention_problem::Layout at(p);
  ladder::Expected o{ladder::filled(at.q_size()), ladder::filled(at.q_size())};
  ladder::Expected lse{ladder::filled(at.lse_size()), ladder::filled(at.lse_size())};
  const auto d = static_cast<std::size_t>(p.d);

  const auto of_head = [&](int b, int h) {
    const int keys = at.keys(b), queries = at.queries(b), kv_head = h / (p.heads / p.kv_heads);
    const int diagonal = p.top_left ? 0 : keys - queries;
    const std::size_t first_key = at.key_row(b, kv_head, 0);
    const auto wide_k = widened(k + first_key, keys, at.k_strides().row, p.d);
    const auto wide_v = widened(v + first_key, keys, at.k_strides().row, p.d);
    for (int row = 0; row < queries; ++row) {
      const int seen = causal ? std::clamp(row + diagonal + 1, 0, keys) : keys;
      const std::size_t o_at = at.query_row(b, h, row), lse_at = at.lse_of(b, h, row);
      const Scores scores(q + o_at, wide_k, seen, p.d);
      if (seen == 0) {
        lse.values[lse_at] = -std::numeric_limits<double>::infinity();
        continue;
      }
      double* const value = &o.values[o_at];
      for (std::size_t j = 0; j < scores.p.size(); ++j) {
        for (std::size_t i = 0; i < d; ++i) value[i] += scores.p[j] * wide_v[j * d + i];
      }
      for (std::size_t i = 0; i < d; ++i) value[i] /= scores.sum;

      std::vector<double> sum(d), squares(d), steps(d), moved(d);
      double error = 0;
      for (std::size_t j = 0; j < scores.p.size(); ++j) {
        const double weight = scores.p[j], off = weight * scores.error[j];
        error += off;
        for (std::size_t i = 0; i < d; ++i) {
          const double element = wide_v[j * d + i], term = weight * std::abs(element);
          sum[i] += term;
          squares[i] += term * term;
          steps[i] += element * element;
          moved[i] += off * std::abs(element - value[i]);
        }
      }
      const double n = seen;
      for (std::size_t i = 0; i < d; ++i) {
        const double rounded =
            std::min(rounding<T>() * sum[i],
                     kDeviations / std::sqrt(3.0) * rounding<T>() * std::sqrt(squares[i]));
        const double small = kDeviations * kLeastStep<T> * std::sqrt(steps[i]);
        o.magnitude[o_at + i] = (rounded + small + moved[i] + products(n) * sum[i]) / scores.sum +
                                additions(n) * std::abs(value[i]);
      }
      lse.values[lse_at] = scores.max + std::log(scores.sum);
      lse.magnitude[lse_at] = error / scores.sum + additions(n) +
                              4 * kU * (std::abs(scores.max) + std::log(scores.sum) + 1);
    }
  };
  const auto heads = static_cast<std::size_t>(p.heads);
  ladder::parallel_for(static_cast<std::size_t>(p.batch) * heads, 1,
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t i = begin; i < end; ++i) {
                           of_head(static_cast<int>(i / heads), static_cast<int>(i % heads));
                         }
                       });
  std::vector<ladder::Expected> all;
  all.push_back(std::move(o));
  all.push_back(std::move(lse));
  return all;
}

}  // namespace attention_reference
