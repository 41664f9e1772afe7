// ex2: the hardware's exponential, in base 2.
//
//   exp2_approx(kLog2E * x)        e^x, for which expf takes eight instructions
//
// PTX ISA, "Floating Point Instructions: ex2". On the host executor it is as exact as the C
// library's.
#pragma once

#include "device/kernel.hpp"

#include <cmath>

namespace ladder::ptx {

constexpr float kLog2E = 1.44269504f;  // log2(e)

/// 2^x to within 2^-22.5 of it; below 2^-126 it is 0.
__device__ __forceinline__ float exp2_approx(float x) {
#if defined(LADDER_HOST_EXECUTOR)
  return std::exp2(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

}  // namespace ladder::ptx
