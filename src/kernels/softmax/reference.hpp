// The right answers in fp64, a row at a time, and how far a correct kernel may be from them. Limits
// are in units of u = 2^-24, fp32's unit roundoff; what an element type adds is at the end of the
// file. Included by family.cpp.
#pragma once

#include "harness/family.hpp"
#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace softmax_reference {

constexpr double kU = 0x1p-24;

/// A row's values and limits, to be written.
struct Row {
  double *value, *magnitude;
};

template <class T>
double widened(T x) {
  return static_cast<double>(static_cast<float>(x));
}

/// Below fp32's normal numbers a library may flush to zero, as nvcc -ftz=true does: exp and the
/// product. Below those of f16 and bf16 a result is off by half a step.
template <class T>
double least_step() {
  const double of_output = ladder::DTypeOf<T>::value == ladder::DType::f16    ? 0x1p-25
                           : ladder::DTypeOf<T>::value == ladder::DType::bf16 ? 0x1p-134
                                                                              : 0;
  return 0x1p-125 + of_output;
}

/// The error of a sum of n rounded numbers, in units of u times the sum of their magnitudes: at
/// most n, and taken as independent lambda * sqrt(n) but for a probability that falls like
/// exp(-lambda^2 / 2) (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis,
/// 2019).
constexpr double kLambda = 8;
inline double additions(double n) { return std::min(n, kLambda * std::sqrt(n)); }

/// The error of an exponential exp(-d), in units of u of it. d is rounded, which costs d; __expf,
/// the least exact exp, is wrong by 2 + 1.173 d units in the last place (CUDA C++ Programming
/// Guide, intrinsic functions), each up to 2 u: together 3.346 d + 4. (ex2.approx is wrong by
/// 2^-22.5, less than 3 u, its argument by two roundings and that of log2 e, less than 3 d.)
constexpr double kOfExponent = 3.346;

/// What depends on the row's length only of the error of an element y = exp(-d) / sum, in units of
/// u * y. To it come kOfExponent * d, and of the exponentials in the sum as much, with the mean of
/// their d, weighted by exp(-d).
///   4 + 4 + 2    both exps at d = 0, the division and the product
///   additions    of the sum
///   rescalings   of online sums, 5 each, when the maximum moves, and 2 when threads merge. The d
///                of the steps add up to the whole d, counted above. The i-th of n random numbers
///                is the largest so far with probability 1/i (Renyi): about H(n) steps, with a
///                variance below H(n).
inline double error_of_a_row(int cols) {
  const double n = std::max(cols, 1), harmonic = std::log(n) + 1;
  const double rescalings = 2 + std::min(n, harmonic + kLambda * std::sqrt(harmonic));
  return 10 + additions(n) + 5 * rescalings;
}

/// What every result of a forward row needs. `value` gets exp(-d), `magnitude` d * exp(-d).
struct Sums {
  double max, sum, error;  ///< the last in units of u * sum
};
template <class T>
Sums exponentials(const T* x, int cols, const Row& row) {
  double max = -std::numeric_limits<double>::infinity();
  for (int c = 0; c < cols; ++c) max = std::max(max, widened(x[c]));
  double sum = 0, weighted = 0;  // weighted by exp: the distances from the maximum
  for (int c = 0; c < cols; ++c) {
    const double distance = max - widened(x[c]);
    row.value[c] = std::exp(-distance);
    row.magnitude[c] = row.value[c] > 0 ? row.value[c] * distance : 0;
    sum += row.value[c];
    weighted += row.magnitude[c];
  }
  return {max, sum, error_of_a_row(cols) + kOfExponent * weighted / sum};
}

template <class T>
void answer(softmax, const T* x, int cols, const Row& row) {
  const double underflow = least_step<T>() / kU;
  const Sums of_row = exponentials(x, cols, row);
  for (int c = 0; c < cols; ++c) {
    row.value[c] /= of_row.sum;
    row.magnitude[c] =
        kOfExponent * row.magnitude[c] / of_row.sum + of_row.error * row.value[c] + underflow;
  }
}

// The roundings of both differences; of the logarithm, whose error is the sum's relative error, and
// 2 u of its own (logf is within a unit in the last place).
template <class T>
void answer(log_softmax, const T* x, int cols, const Row& row) {
  const double underflow = least_step<T>() / kU;
  const Sums of_row = exponentials(x, cols, row);
  const double log_sum = std::log(of_row.sum);
  for (int c = 0; c < cols; ++c) {
    const double distance = of_row.max - widened(x[c]);
    const double y = -distance - log_sum;
    row.value[c] = y;
    row.magnitude[c] =
        std::isinf(y) ? 0 : distance + std::abs(y) + of_row.error + 2 * log_sum + underflow;
  }
}

// A product, the sum, a difference and a product; the sum's error reaches every element by its y.
template <class T>
void answer(softmax_backward, const T* y, const T* dy, int cols, const Row& row) {
  const double underflow = least_step<T>() / kU;
  double sum = 0, magnitude = 0;
  for (int c = 0; c < cols; ++c) {
    const double product = widened(y[c]) * widened(dy[c]);
    sum += product;
    magnitude += std::abs(product);
  }
  const double of_sum = (1 + additions(cols)) * magnitude + underflow * cols;
  for (int c = 0; c < cols; ++c) {
    const double factor = widened(y[c]), difference = widened(dy[c]) - sum;
    row.value[c] = factor * difference;
    row.magnitude[c] = std::abs(factor) * (of_sum + 2 * std::abs(difference)) + underflow;
  }
}

// The sum, the exponential, a product and a difference.
template <class T>
void answer(log_softmax_backward, const T* y, const T* dy, int cols, const Row& row) {
  double sum = 0, magnitude = 0;
  for (int c = 0; c < cols; ++c) {
    sum += widened(dy[c]);
    magnitude += std::abs(widened(dy[c]));
  }
  const double underflow = least_step<T>() / kU * (1 + std::abs(sum));
  for (int c = 0; c < cols; ++c) {
    const double log_y = widened(y[c]), exponential = std::exp(log_y);
    const double of_exponential = exponential > 0 ? kOfExponent * std::abs(log_y) + 4 : 0;
    row.value[c] = widened(dy[c]) - exponential * sum;
    row.magnitude[c] =
        exponential * (additions(cols) * magnitude + (of_exponential + 1) * std::abs(sum)) +
        std::abs(row.value[c]) + underflow;
  }
}

}  // namespace softmax_reference
