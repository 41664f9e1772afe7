// The right answers in fp64, element by element, and how far a correct kernel may be from them. The
// same source gives the reference on the CPU and, for big problems, on the GPU.
#pragma once

#include "elementwise.hpp"
#include "harness/check.hpp"

namespace elementwise {

struct Answer {
  double value;
  double allowed;  ///< the largest error of a correct kernel
};

/// What a T adds to the rounding errors of fp32: the unit roundoff of a result that is narrowed to
/// T; and its smallest positive number, half of which is lost at most where results underflow.
template <class T>
constexpr double kNarrowing = 0;
template <>
inline constexpr double kNarrowing<ladder::half> = 0x1p-11;
template <>
inline constexpr double kNarrowing<ladder::bfloat16> = 0x1p-8;
template <class T>
constexpr double kSmallest = 0x1p-149;
template <>
inline constexpr double kSmallest<ladder::half> = 0x1p-24;
template <>
inline constexpr double kSmallest<ladder::bfloat16> = 0x1p-133;

template <class T>
__host__ __device__ double widened(T x) {
  return static_cast<double>(static_cast<float>(x));
}
template <class T>
__host__ __device__ double rounded(double x) {
  return widened(T(static_cast<float>(x)));
}
__host__ __device__ inline double exact_gelu(double x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  return 0.5 * x * erfc(-kSqrtHalf * x);  // 1 + erf without its cancellation
}
__host__ __device__ inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// relu and add are one correctly rounded step, so the only right answer is the nearest number.

template <class T>
__host__ __device__ Answer answer(const Args<relu, T>& a, std::int64_t i) {
  const double x = widened(a.x[0][i]);
  return {rounded<T>(x < 0 ? 0 : x), 0};
}

template <class T>
__host__ __device__ Answer answer(const Args<add, T>& a, std::int64_t i) {
  return {rounded<T>(widened(a.x[0][i]) + widened(a.x[1][i])), 0};
}

// gelu, with u = 2^-24. erff is within 2 ulp (CUDA C++ Programming Guide, Mathematical Functions),
// and an ulp below 1 is at most u. Its argument z = x / sqrt 2 carries two roundings (of sqrt 1/2
// and of the product), which move erf by at most 2u max|z erf'(z)| = 2u * 0.484. Together, times
// |x| / 2, at most 1.5 u |x|: for negative x an absolute error, because 1 + erf cancels. The last
// step rounds to fp32, and for a narrower T once more. Underflow may cost half of the smallest
// number in x / 2, in the last step, and in the narrowing.
template <class T>
__host__ __device__ Answer answer(const Args<gelu, T>& a, std::int64_t i) {
  constexpr double u = 0x1p-24;
  const double x = widened(a.x[0][i]);
  const double y = exact_gelu(x);
  return {y, 1.5 * u * fabs(x) + (u + kNarrowing<T>)*fabs(y) + 1.5 * kSmallest<T>};
}

// gelu_tanh is x sigmoid(v), v = 2w. The argument w carries four roundings, those of the constants
// among them.
//
// As x/2 (1 + tanh w), they move tanh by at most 4u max|w tanh'(w)| = 4u * 0.448; tanhf is within 2
// ulp, each at most u. Times |x| / 2 that is 1.9 u |x|, and the last step rounds to fp32.
//
// As x / (1 + exp(-v)), the roundings of v are 4u |v| of the exponential, and __expf is wrong by
// 2 + 1.173 |v| ulp, each at most 2u of it. The quotient changes by sigmoid(-v) of that, at most
// 2.1 u |x| in all. The sum rounds once, and __fdividef is within 2 ulp: 5 u |y|. The hardware's
// exp2 and reciprocal stay below that: v log2 e carries four roundings too, exp2 is within 2^-22.5
// (2.9 u), the reciprocal within 2u, and the sum and the product round.
__host__ __device__ inline Answer gelu_tanh_answer(double x, double absolute, double relative,
                                                   double smallest) {
  const double w = 0.79788456080286535588 * (x + 0.044715 * x * x * x);  // sqrt(2 / pi)
  const double y = x * sigmoid(2 * w);
  return {y, absolute * fabs(x) + relative * fabs(y) + 1.5 * smallest};
}
template <class T>
__host__ __device__ Answer answer(const Args<gelu_tanh, T>& a, std::int64_t i) {
  constexpr double u = 0x1p-24;
  return gelu_tanh_answer(widened(a.x[0][i]), 2.1 * u, 5 * u + kNarrowing<T>, kSmallest<T>);
}

// The hardware's tanh is within 2^-11 of its result (PTX ISA, tanh.approx), which is 1 at most.
template <class T>
__host__ __device__ Answer answer(const Args<gelu_tanh_approx, T>& a, std::int64_t i) {
  constexpr double u = 0x1p-24;
  return gelu_tanh_answer(widened(a.x[0][i]), 0x1p-12 + 0.9 * u, u + kNarrowing<T>, kSmallest<T>);
}

// silu_mul: nothing cancels, so the limit is relative. As above, with an argument that is exact:
// exp, the sum and the quotient; and one more rounding for the product. (By exp2 the argument x
// log2 e carries two: 2.9 u + 2u |x| for 4u + 2.35 u |x|; and the rest is 5 u for 6.) Absolute is
// what is lost where exp(-x) goes beyond 2^126, above which __fdividef and the reciprocal give 0,
// and where results underflow.
template <class T>
__host__ __device__ Answer answer(const Args<silu_mul, T>& a, std::int64_t i) {
  constexpr double u = 0x1p-24;
  const double x = widened(a.x[0][i]), gated = widened(a.x[1][i]);
  const double y = x * sigmoid(x) * gated;
  const double relative = (4 + 2.35 * fabs(x)) * sigmoid(-x) * u + 6 * u + kNarrowing<T>;
  return {y,
          relative * fabs(y) + 0x1p-126 * fabs(x * gated) + 0x1p-150 * fabs(gated) + kSmallest<T>};
}

// The chain, with s = x + bias and g = gelu(s). Each of its three results may be rounded to T, as
// an unfused chain stores them. The error of s reaches g times the slope of gelu, at most 1.13.
template <class T>
__host__ __device__ Answer answer(const Args<bias_gelu_residual, T>& a, std::int64_t i) {
  constexpr double u = 0x1p-24, u_each = u + kNarrowing<T>;
  const double s = widened(a.x[i]) + widened(a.bias[i % a.cols]);
  const double g = exact_gelu(s);
  const double y = g + widened(a.residual[i]);
  return {y, 1.13 * u_each * fabs(s) + 1.5 * u * fabs(s) + u_each * (fabs(g) + fabs(y)) +
                 2.5 * kSmallest<T>};
}

/// answer() of every element, computed on the GPU; all pointers are the GPU's, those of y hold a.n.
/// Throws std::runtime_error when CUDA fails.
template <class Op, class T>
void reference_on_gpu(const Args<Op, T>& a, ladder::AnswerOnGpu y);

}  // namespace elementwise
