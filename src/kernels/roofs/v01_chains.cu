// Idea      nothing but FMAs in registers: eight chains per thread, none of which waits
//           for another
// Bound by  FMA throughput: a chain can take a step every 4 to 8 cycles, and an SM has hundreds
// Limits    none
#include "roofs.hpp"

namespace {

using roofs::fma;

__device__ __forceinline__ float multiply_add(float x, float a, float b) { return fmaf(x, a, b); }
__device__ __forceinline__ double multiply_add(double x, double a, double b) {
  return ::fma(x, a, b);
}
__device__ __forceinline__ half2 multiply_add(half2 x, half2 a, half2 b) {
  return __hfma2(x, a, b);
}

__device__ __forceinline__ float sum(float x) { return x; }
__device__ __forceinline__ double sum(double x) { return x; }
__device__ __forceinline__ float sum(half2 x) { return __low2float(x) + __high2float(x); }

template <class T>
struct RegisterOf {
  using type = T;
};
template <>
struct RegisterOf<ladder::half> {
  using type = half2;
};

template <class T>
__global__ void __launch_bounds__(fma::kBlock) chains(fma::Args<T> f) {
  using Register = typename RegisterOf<T>::type;
  const auto both = [](T x) {
    if constexpr (std::is_same_v<T, ladder::half>) {
      return half2(x, x);
    } else {
      return x;
    }
  };
  const Register a = both(f.a[0]), b = both(f.b[threadIdx.x]);
  Register x[fma::kChains];
#pragma unroll
  for (int c = 0; c < fma::kChains; ++c) x[c] = both(T(static_cast<float>(c)));

  for (int step = 0; step < f.steps; step += fma::kUnroll) {
#pragma unroll
    for (int u = 0; u < fma::kUnroll; ++u) {
#pragma unroll
      for (int c = 0; c < fma::kChains; ++c) x[c] = multiply_add(x[c], a, b);
    }
  }

  auto total = sum(x[0]);
#pragma unroll
  for (int c = 1; c < fma::kChains; ++c) total += sum(x[c]);
  f.y[std::int64_t{blockIdx.x} * fma::kBlock + threadIdx.x] = total;
}

struct Chains {
  static constexpr ladder::Version version{"8 chains of multiply-adds per thread, in registers"};

  template <class T>
  static void launch(const fma::Args<T>& f, cudaStream_t stream) {
    ladder::launch(chains<T>, f.blocks, fma::kBlock, 0, stream, f);
  }
};

const ladder::Register<Chains, fma, float, double, ladder::half> registration;

}  // namespace
