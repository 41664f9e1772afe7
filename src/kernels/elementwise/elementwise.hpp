// Elementwise operations: y[i] = op(x0[i], x1[i], …) for n elements, no reuse of any byte.
#pragma once

#include "device/kernel.hpp"

#include <cmath>

namespace elementwise {

struct Problem {
  std::int64_t rows, cols;  // a vector is one row; only a bias asks where rows end
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

/// gelu with tanh in place of erf: x/2 (1 + tanh w), w = sqrt(2/pi) (x + 0.044715 x^3).
struct gelu_tanh : Operation<gelu_tanh> {
  static constexpr const char* op = "gelu_tanh";
  static constexpr int inputs = 1;
  static constexpr int flops = 8;  // a tanh counts as one
  __host__ __device__ static float w(float x) {
    constexpr float kLinear = 0.79788456f, kCubic = 0.035677408f;
    return x * fmaf(kCubic, x * x, kLinear);
  }
  __host__ __device__ static float apply(const float (&x)[1]) {
    const float half_x = 0.5f * x[0];
    return fmaf(half_x, tanhf(w(x[0])), half_x);
  }
};

/// gelu_tanh where the result may be off by |x| / 4096, which is what the hardware's tanh can
/// promise. Its versions are v06 to v08.
struct gelu_tanh_approx : Operation<gelu_tanh_approx> {
  static constexpr const char* op = "gelu_tanh_approx";
  static constexpr int inputs = 1;
  static constexpr int flops = gelu_tanh::flops;
};

/// silu(x0) x1 with silu(x) = x / (1 + exp(-x)): the gate of a SwiGLU layer.
struct silu_mul : Operation<silu_mul> {
  static constexpr const char* op = "silu_mul";
  static constexpr int inputs = 2;
  static constexpr int flops = 4;  // an exp counts as one, a division too
  __host__ __device__ static float apply(const float (&x)[2]) {
    return x[0] / (1.0f + expf(-x[0])) * x[1];
  }
};

/// gelu(x + bias) + residual, the end of a transformer's feed-forward layer; the bias has one value
/// per column. Its versions are v20 and up.
struct bias_gelu_residual : Operation<bias_gelu_residual> {
  static constexpr const char* op = "bias_gelu_residual";
  static constexpr int inputs = 3;
  static constexpr int flops = 7;
};

template <class T>
struct Args<bias_gelu_residual, T> {
  const T* x;         // [n], rows of cols
  const T* bias;      // [cols]; of element i it is bias[i % cols]
  const T* residual;  // [n]
  T* y;               // [n]
  std::int64_t n, cols;
  void* workspace;
};

}  // namespace elementwise
