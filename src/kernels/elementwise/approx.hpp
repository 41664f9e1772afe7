// The hardware's tanh, which CUDA C++ has no name for everywhere, and a gelu made of one exp2: for
// v06 and v23. The host executor's tanh is as exact as the C library's.
#pragma once

#include "harness/ptx/exp2.hpp"

#include <cmath>

namespace elementwise {

using ladder::ptx::exp2_approx;

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
  return fmaf(-0.5f * a, exp2_approx(p * a), x < 0.0f ? 0.0f : x);  // a NaN stays a NaN
}

}  // namespace elementwise
