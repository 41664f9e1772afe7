// Reductions: y = x[0] op x[1] op … op x[n-1], one number from n.
//
// Elements of fp32 and narrower types are reduced in fp32, fp64 in fp64; int32 in int32, which wraps
// around. The order of the operations is free, so that sums differ in their last bits from version
// to version; a version given the same elements again gives the same bits, unless it says otherwise.
#pragma once

#include "device/kernel.hpp"

#include <cmath>
#include <limits>
#include <type_traits>

namespace reduction {

struct Problem {
  std::int64_t n;
};

/// What elements of T are reduced in; the type of sums and maxima.
template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <>
struct AccumulatorOf<std::int32_t> {
  using type = std::int32_t;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

template <class Op, class T>
struct Args {
  const T* x;         // [n]
  Accumulator<T>* y;  // [1]
  std::int64_t n;
  void* workspace;
};

/// What the operations share. An operation adds its name and how it combines accumulators of type A:
/// identity() is the result of no elements, which changes no other one, combine() that of two.
template <class Op>
struct Operation {
  static constexpr const char* family = "reduction";
  using Problem = reduction::Problem;
  template <class T>
  using Args = reduction::Args<Op, T>;
  template <class T>
  using Output = Accumulator<T>;
};

template <class A>
__host__ __device__ A add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {  // signed overflow is undefined, unsigned wraps around
    using Unsigned = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

/// The least value of A, minus infinity where it has one.
template <class A>
inline constexpr A kLeast = std::numeric_limits<A>::has_infinity
                                ? -std::numeric_limits<A>::infinity()
                                : std::numeric_limits<A>::lowest();

struct sum : Operation<sum> {
  static constexpr const char* op = "sum";
  template <class A = float>
  __host__ __device__ static constexpr A identity() {
    return 0;
  }
  template <class A>
  __host__ __device__ static A combine(A a, A b) {
    return add(a, b);
  }
};

/// Of elements with a NaN among them it is not defined.
struct max : Operation<max> {
  static constexpr const char* op = "max";
  template <class A = float>
  __host__ __device__ static constexpr A identity() {
    return kLeast<A>;
  }
  template <class A>
  __host__ __device__ static A combine(A a, A b) {
    if constexpr (std::is_same_v<A, float>) {
      return fmaxf(a, b);
    } else if constexpr (std::is_same_v<A, double>) {
      return fmax(a, b);
    } else {
      return a < b ? b : a;
    }
  }
};

/// x[0] y[0] + … + x[n-1] y[n-1]. Its versions are v40 and up.
struct dot : Operation<dot> {
  static constexpr const char* op = "dot";
};

template <class T>
struct Args<dot, T> {
  const T* x[2];      // [n] each
  Accumulator<T>* y;  // [1]
  std::int64_t n;
  void* workspace;
};

/// a b + c, rounded once.
__host__ __device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__host__ __device__ inline double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}

/// The index of the first of the largest elements. A NaN counts as larger than every number, and the
/// first NaN wins, as in PyTorch. 0 of no elements. Its versions are v30 and up.
struct argmax : Operation<argmax> {
  static constexpr const char* op = "argmax";
  template <class T>
  using Output = std::int64_t;
};

template <class T>
struct Args<argmax, T> {
  const T* x;       // [n]
  std::int64_t* y;  // [1]
  std::int64_t n;
  void* workspace;
};

/// An element, as argmax carries it: with its index. {kLeast<A>, 0} stands for none: it wins only
/// where all elements are the least there is, and 0 is then the right index.
template <class A>
struct Candidate {
  A value;
  std::int64_t index;
};

/// Whether `value` wins against a `best` that comes before it.
template <class A>
__host__ __device__ bool beats(A value, A best) {
  return !(value <= best) && best == best;  // true also of a NaN against a number
}

/// Of two in any order.
template <class A>
__host__ __device__ Candidate<A> better(Candidate<A> a, Candidate<A> b) {
  const bool is_b = a.index < b.index ? beats(b.value, a.value) : !beats(a.value, b.value);
  return {is_b ? b.value : a.value, is_b ? b.index : a.index};
}

}  // namespace reduction
