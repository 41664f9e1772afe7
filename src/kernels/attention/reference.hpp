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
//                                          sum of p[j] error(s[j]) (|v[j]| + |o|) / L
//   the products with V                    products(n) sum of p[j] |v[j]| / L
//   L                                      additions(n) |o|
//
// and lse by the mean of error(s[j]), weighted by p[j], additions(n), and the roundings of its terms.
// In f16 a p[j] below 2^-14 is off by up to 2^-25 whatever its size.
#pragma once

#include "harness/family.hpp"
#include "layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attention_reference {

constexpr double kU = 0x1p-24;     // fp32's unit roundoff
constexpr double kDeviations = 7;  // that a sum of roundings may be off by

/// The error of n products' sum on tensor cores, times the sum of their magnitudes: see gemm_tensor's
/// family.cpp.
__host__ __device__ inline double products(double n) { return fmin(2 * n, 13 * sqrt(n)) * 0x1p-23; }

/// The same of a sum of n positive numbers, one by one in fp32, and of the factors that move it to
/// another maximum, one for 16 numbers at most (softmax/reference.hpp).
__host__ __device__ inline double additions(double n) {
  return (fmin(n, 8 * sqrt(n)) + n / 16 + 4) * kU;
}

template <class T>
__host__ __device__ constexpr double rounding() {
  return std::is_same_v<T, ladder::half> ? 0x1p-11 : 0x1p-8;
}

/// By what a number below T's normal ones is off when it is rounded to T: half of their step.
template <class T>
constexpr double kLeastStep = std::is_same_v<T, ladder::half> ? 0x1p-25 : 0x1p-134;

template <class T>
ladder::Tolerance tolerance() {
  return {.relative = rounding<T>(), .scaled = 1, .absolute = kLeastStep<T>};
}

/// error(s[j]): of the products, of the factors of a score and of the maximum, of their difference,
/// and of the exponential; exp2 is off by 2^-22.5, and by the rounding of what it is of. The
/// maximum's part stands alone.
__host__ __device__ inline double error_of_score(double s, double magnitude, double d) {
  return magnitude * products(d) + (4 * fabs(s) + 4) * kU;
}
__host__ __device__ inline double error_of_max(double max) { return 4 * fabs(max) * kU; }

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
      error.push_back(error_of_score(p.back(), magnitude * scale, d));
      max = std::max(max, p.back());
    }
    for (std::size_t j = 0; j < p.size(); ++j) {
      error[j] += error_of_max(max);
      p[j] = std::exp(p[j] - max);
      sum += p[j];
    }
  }
};

/// What an element's limit is made of: sums over the keys.
struct Sums {
  double weights, error;  ///< of p[j], and of p[j] error(s[j])
  double value;           ///< o
  double terms, squares;  ///< of p[j] |v[j]|, and of their squares
  double steps;           ///< of v[j]^2
  double moved;           ///< of p[j] error(s[j]) |v[j]|
};

/// Beyond the rounding of o, which is the tolerance's.
template <class T>
__host__ __device__ double limit_of_o(const Sums& s, double keys) {
  const double rounded = rounding<T>() * fmin(s.terms, kDeviations / sqrt(3.0) * sqrt(s.squares));
  const double small = kDeviations * kLeastStep<T> * sqrt(s.steps);
  return (rounded + small + s.moved + s.error * fabs(s.value) + products(keys) * s.terms) /
             s.weights +
         additions(keys) * fabs(s.value);
}
__host__ __device__ inline double limit_of_lse(double max, double sum, double error, double keys) {
  return error / sum + additions(keys) + 4 * kU * (fabs(max) + log(sum) + 1);
}

/// A query's o and lse, with their limits.
struct Answer {
  std::vector<double> value, limit;
  double lse = -std::numeric_limits<double>::infinity(), limit_of_its_lse = 0;

  /// Of the first `seen` keys.
  template <class T>
  Answer(const T* q, const std::vector<double>& k, const std::vector<double>& v, int seen, int size)
      : value(static_cast<std::size_t>(size)), limit(value.size()) {
    if (seen == 0) return;
    const Scores scores(q, k, seen, size);
    const std::size_t d = value.size();
    std::vector<Sums> sums(d);
    double error = 0;
    for (std::size_t j = 0; j < scores.p.size(); ++j) {
      const double p = scores.p[j], off = p * scores.error[j];
      error += off;
      for (std::size_t i = 0; i < d; ++i) {
        const double element = v[j * d + i], term = p * std::abs(element);
        sums[i].value += p * element;
        sums[i].terms += term;
        sums[i].squares += term * term;
        sums[i].steps += element * element;
        sums[i].moved += off * std::abs(element);
      }
    }
    for (std::size_t i = 0; i < d; ++i) {
      sums[i].weights = scores.sum;
      sums[i].error = error;
      value[i] = sums[i].value /= scores.sum;
      limit[i] = limit_of_o<T>(sums[i], seen);
    }
    lse = scores.max + std::log(scores.sum);
    limit_of_its_lse = limit_of_lse(scores.max, scores.sum, error, seen);
  }
};

/// o and lse.
template <class T>
std::vector<ladder::Expected> forward(const attention::Problem& p, bool causal, const T* q,
                                      const T* k, const T* v) {
  const attention_layout::Layout at(p);
  ladder::Expected o = ladder::zeros(at.q_size());
  ladder::Expected lse = ladder::zeros(at.lse_size());

  const auto of_head = [&](int b, int h) {
    const int keys = at.keys(b), queries = at.queries(b), kv_head = h / (p.heads / p.kv_heads);
    const int diagonal = p.top_left ? 0 : keys - queries;
    const std::size_t first_key = at.key_row(b, kv_head, 0);
    const auto wide_k = widened(k + first_key, keys, at.k_strides().row, p.d);
    const auto wide_v = widened(v + first_key, keys, at.k_strides().row, p.d);
    for (int row = 0; row < queries; ++row) {
      const int seen = causal ? std::clamp(row + diagonal + 1, 0, keys) : keys;
      const std::size_t o_at = at.query_row(b, h, row), lse_at = at.lse_of(b, h, row);
      const Answer answer(q + o_at, wide_k, wide_v, seen, p.d);
      std::ranges::copy(answer.value, &o.values[o_at]);
      std::ranges::copy(answer.limit, &o.magnitude[o_at]);
      lse.values[lse_at] = answer.lse;
      lse.magnitude[lse_at] = answer.limit_of_its_lse;
    }
  };
  const auto heads = static_cast<std::size_t>(p.heads);
  ladder::parallel_for(static_cast<std::size_t>(p.batch) * heads, 1,
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t i = begin; i < end; ++i) {
                           of_head(static_cast<int>(i / heads), static_cast<int>(i % heads));
                         }
                       });
  return ladder::answers(std::move(o), std::move(lse));
}

/// The same on a GPU, where all of a's pointers are. A few rows are checked against the CPU's. Throws
/// std::runtime_error when CUDA fails, or a row is wrong.
template <class T>
void forward_on_gpu(const attention::Args<T>& a, bool causal, ladder::AnswerOnGpu o,
                    ladder::AnswerOnGpu lse);

}  // namespace attention_reference
