// Idea      one kernel per operation: x + bias, gelu, + residual, as a framework runs them
// Vs v01    three launches, with the intermediate results in memory: 7 n elements are read and
//           written for the 3 n of the operation
// Bound by  how many loads are in flight, an element or two per thread, in each of the three
// Limits    none
#include "elementwise.hpp"

namespace {

using elementwise::bias_gelu_residual;
using elementwise::gelu;

template <class T>
__global__ void add_bias(const T* x, const T* bias, std::int64_t cols, T* sum, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T b = bias[i % cols];
  sum[i] = T(static_cast<float>(x[i]) + static_cast<float>(b));
}

template <class T>
__global__ void gelu_in_place(T* x, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] = T(gelu::apply({static_cast<float>(x[i])}));
}

template <class T>
__global__ void add_residual(const T* x, const T* residual, T* y, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = T(static_cast<float>(x[i]) + static_cast<float>(residual[i]));
}

struct Unfused {
  static constexpr ladder::Version version{"three launches, intermediates in memory"};

  template <class T>
  static std::size_t workspace(const bias_gelu_residual::Args<T>& a) {
    return static_cast<std::size_t>(a.n) * sizeof(T);
  }

  template <class T>
  static void launch(const bias_gelu_residual::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = 256;
    const std::int64_t blocks = ladder::ceil_div(a.n, kBlock);
    T* between = static_cast<T*>(a.workspace);
    ladder::launch(add_bias<T>, blocks, kBlock, 0, stream, a.x, a.bias, a.cols, between, a.n);
    ladder::launch(gelu_in_place<T>, blocks, kBlock, 0, stream, between, a.n);
    ladder::launch(add_residual<T>, blocks, kBlock, 0, stream, between, a.residual, a.y, a.n);
  }
};

const ladder::Register<Unfused, bias_gelu_residual, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
