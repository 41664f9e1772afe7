// Idea      one thread per element
// Vs        the loop over i on a CPU: its body runs once in each of n threads
// Bound by  how many loads are in flight, an element per thread; with 2-byte elements, by how fast
//           the GPU starts blocks
// Limits    none
#include "elementwise.hpp"

namespace {

template <class Op, class T>
__global__ void naive(elementwise::Args<Op, T> a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  float x[Op::inputs];
#pragma unroll
  for (int k = 0; k < Op::inputs; ++k) x[k] = static_cast<float>(a.x[k][i]);
  a.y[i] = T(Op::apply(x));
}

struct Naive {
  static constexpr ladder::Version version{"one thread per element"};

  template <class Op, class T>
  static void launch(const elementwise::Args<Op, T>& a, cudaStream_t stream) {
    constexpr int kBlock = 256;
    ladder::launch(naive<Op, T>, ladder::ceil_div(a.n, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Naive, elementwise::relu, float, ladder::half, ladder::bfloat16> relu;
const ladder::Register<Naive, elementwise::add, float, ladder::half, ladder::bfloat16> add;
const ladder::Register<Naive, elementwise::gelu, float, ladder::half, ladder::bfloat16> gelu;
const ladder::Register<Naive, elementwise::gelu_tanh, float, ladder::half, ladder::bfloat16>
    gelu_tanh;
const ladder::Register<Naive, elementwise::silu_mul, float, ladder::half, ladder::bfloat16>
    silu_mul;

}  // namespace
