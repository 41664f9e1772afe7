// Elementwise operations: y[i] = op(x0[i], x1[i], …) for n elements, no reuse of any byte.
#pragma once

#include "harness/kernel.hpp"

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
  __host__ __device__ static float apply(const float (&x)[1]) { return x[0] < 0.0f ? 0.0f : x[0]; }
};

/// x0 + x1.
struct add : Operation<add> {
  static constexpr const char* op = "add";
  static constexpr int inputs = 2;
  __host__ __device__ static float apply(const float (&x)[2]) { return x[0] + x[1]; }
};

}  // namespace elementwise
