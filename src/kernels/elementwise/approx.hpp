// The arithmetic of v06 and later: the hardware's reciprocal and tanh, which CUDA C++ has no name for
// everywhere, and what the operations make of them and of exp2. The host executor's are as exact as
// the C library's.
#pragma once

#include "device/ptx/exp2.hpp"
#include "elementwise.hpp"

#include <cmath>
#include <type_traits>

namespace elementwise {

using ladder::ptx::exp2_approx;

/// 1/x to within 2^-23 of it (PTX ISA, rcp.approx.ftz); above 2^126 it is 0.
__device__ inline float reciprocal_approx(float x) {
#if defined(LADDER_HOST_EXECUTOR)
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// tanh x to within 2^-11 of it (PTX ISA, tanh.approx).
__device__ inline float tanh_approx(float x) {
#if defined(LADDER_HOST_EXECUTOR)
  return std::tanh(x);
#else
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// max(x, 0), of a NaN a NaN: one instruction, where x < 0 ? 0 : x is two. Compute capability 8.0;
/// below, the two.
__device__ inline float positive_part(float x) {
#if defined(LADDER_HOST_EXECUTOR) || __CUDA_ARCH__ < 800
  return x < 0.0f ? 0.0f : x;
#else
  float y;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// gelu. With a = |x| it is max(x, 0) - a Q(a), where Q(a) = erfc(a / sqrt 2) / 2 is the normal
/// distribution's tail, and that is 2^P(a) / 2 with a polynomial P: nothing cancels. erff has to be
/// exact for small arguments too, relative to its result, and chooses between two polynomials.
///
/// P is a minimax fit up to a = 5.7, where Q is 2^-27; from there it falls on, so that from 10 the
/// result is max(x, 0). What the limit of gelu in reference.hpp, 1.5 u |x| with u = 2^-24, leaves
/// after the errors of exp2_approx and of P's roundings is the weight of the fit: all three
/// together stay below 1.42 u |x|.
__device__ inline float gelu_by_exp2(float x) {
  constexpr int kDegree = 8;
  // Of a, a^2, …
  constexpr float kP[kDegree] = {-0x1.26aec4p+0f, -0x1.d63e1cp-2f, -0x1.ad9964p-5f,
                                 0x1.c8315ap-8f,  -0x1.51737p-15f, -0x1.ea52cap-13f,
                                 0x1.ab921p-15f,  -0x1.07b4a8p-18f};
  const float a = fminf(fabsf(x), 10.0f);
  float p = kP[kDegree - 1];
#pragma unroll
  for (int i = kDegree - 2; i >= 0; --i) p = fmaf(p, a, kP[i]);
  return fmaf(-0.5f * a, exp2_approx(p * a), positive_part(x));  // a NaN stays a NaN
}

/// An operation's result by the cheapest arithmetic that stays within the limits in reference.hpp.
template <class Op>
__device__ float fast(const float (&x)[Op::inputs]) {
  constexpr double kLog2E = 1.4426950408889634;
  if constexpr (std::is_same_v<Op, gelu>) {
    return gelu_by_exp2(x[0]);
  } else if constexpr (std::is_same_v<Op, gelu_tanh>) {
    // (1 + tanh w) / 2 is 1 / (1 + 2^(-2w log2 e)), in which nothing cancels.
    constexpr double kSqrt2OverPi = 0.79788456080286536;
    constexpr auto kLinear = static_cast<float>(-2 * kSqrt2OverPi * kLog2E);
    constexpr auto kCubic = static_cast<float>(-2 * kSqrt2OverPi * 0.044715 * kLog2E);
    const float exponent = x[0] * fmaf(kCubic, x[0] * x[0], kLinear);
    return x[0] * reciprocal_approx(1.0f + exp2_approx(exponent));
  } else if constexpr (std::is_same_v<Op, gelu_tanh_approx>) {
    const float half_x = 0.5f * x[0];
    return fmaf(half_x, tanh_approx(gelu_tanh::w(x[0])), half_x);
  } else if constexpr (std::is_same_v<Op, silu_mul>) {
    const float exponent = static_cast<float>(-kLog2E) * x[0];
    return x[0] * reciprocal_approx(1.0f + exp2_approx(exponent)) * x[1];
  } else {
    return Op::apply(x);
  }
}

}  // namespace elementwise
