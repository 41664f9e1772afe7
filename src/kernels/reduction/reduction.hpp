// Reductions: y = x[0] op x[1] op … op x[n-1], one number from n.
//
// Whatever the element type, the arithmetic and the result are fp32. The order of the operations is
// free, so that sums differ in their last bits from version to version; a version given the same
// elements again gives the same bits. Of elements with a NaN among them the maximum is not defined.
#pragma once

#include "harness/kernel.hpp"

#include <cmath>

namespace reduction {

struct Problem {
  std::int64_t n;
};

template <class Op, class T>
struct Args {
  const T* x;  // [n]
  float* y;    // [1]
  std::int64_t n;
  void* workspace;
};

/// What the operations share; an operation adds its name, the result of no elements, which changes
/// no other number, and the result of two.
template <class Op>
struct Operation {
  static constexpr const char* family = "reduction";
  using Problem = reduction::Problem;
  template <class T>
  using Args = reduction::Args<Op, T>;
  template <class T>
  using Output = float;
};

struct sum : Operation<sum> {
  static constexpr const char* op = "sum";
  __host__ __device__ static constexpr float identity() { return 0.0f; }
  __host__ __device__ static float combine(float a, float b) { return a + b; }
};

struct max : Operation<max> {
  static constexpr const char* op = "max";
  __host__ __device__ static constexpr float identity() { return -INFINITY; }
  __host__ __device__ static float combine(float a, float b) { return fmaxf(a, b); }
};

}  // namespace reduction
