// Elementwise operations: y[i] = op(x0[i], x1[i], …) for n elements, no reuse of any byte.
#pragma once

#include "harness/kernel.hpp"

#include <cmath>

namespace elementwise {

struct Problem {
  std::int64_t n;
};

template <class Op, class T>
struct Args {
  const T* x[Op::inputs];  // [n] each
  T* y;                    // [n]
  std::int64_t n;
};

/// What the operations share; an operation adds its name, its number of inputs and its arithmetic,
/// which is fp32 for every element type.
template <class Op>
struct Operation {
  static constexpr const char* family = "elementwise";
  using Problem = elementwise::Problem;
  template <class T>
  using Args = elementwise::Args<Op, T>;
};

/// max(x, 0); a NaN stays a NaN.
struct relu : Operation<relu> {
  static constexpr const char* op = "relu";
  static constexpr int inputs = 1;
  static constexpr int flops = 1;  // per element
  __host__ __device__ static float apply(const float (&x)[1]) { return x[0] < 0.0f ? 0.0f : x[0]; }
};

/// x0 + x1.
struct add : Operation<add> {
  static constexpr const char* op = "add";
  static constexpr int inputs = 2;
  static constexpr int flops = 1;
  __host__ __device__ static float apply(const float (&x)[2]) { return x[0] + x[1]; }
};

/// x Phi(x) with the normal distribution's Phi, which is (1 + erf(x / sqrt 2)) / 2.
struct gelu : Operation<gelu> {
  static constexpr const char* op = "gelu";
  static constexpr int inputs = 1;
  static constexpr int flops = 5;  // an erf counts as one
  __host__ __device__ static float apply(const float (&x)[1]) {
    constexpr float kSqrtHalf = 0.70710678f;
    const float half_x = 0.5f * x[0];
    return fmaf(half_x, erff(kSqrtHalf * x[0]), half_x);
  }
};

/// gelu(x + bias) + residual, the end of a transformer's feed-forward layer; the bias has one value
/// per channel, and channels follow each other in memory. Its versions are v20 and up.
struct bias_gelu_residual : Operation<bias_gelu_residual> {
  static constexpr const char* op = "bias_gelu_residual";
  static constexpr int inputs = 3;
  static constexpr int flops = 7;
  static constexpr int channels = 4096;
};

template <class T>
struct Args<bias_gelu_residual, T> {
  const T* x;         // [n]
  const T* bias;      // [channels]; of element i it is bias[i % channels]
  const T* residual;  // [n]
  T* y;               // [n]
  std::int64_t n;
  void* workspace;
};

}  // namespace elementwise
