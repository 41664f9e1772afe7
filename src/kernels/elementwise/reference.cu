#include "reference.hpp"

#include "harness/cuda/error.hpp"

namespace elementwise {
namespace {

template <class Op, class T>
__global__ void answers(Args<Op, T> a, ladder::AnswerOnGpu y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  const Answer right = answer(a, i);
  y.values[i] = right.value;
  y.magnitude[i] = right.allowed;
}

}  // namespace

template <class Op, class T>
void reference_on_gpu(const Args<Op, T>& a, ladder::AnswerOnGpu y) {
  constexpr int kBlock = 256;
  if (a.n == 0) return;
  answers<<<static_cast<unsigned>(ladder::ceil_div(a.n, kBlock)), kBlock>>>(a, y);
  LADDER_CUDA(cudaGetLastError());
  LADDER_CUDA(cudaDeviceSynchronize());
}

#define INSTANTIATE(Op)                                                               \
  template void reference_on_gpu(const Args<Op, float>&, ladder::AnswerOnGpu);        \
  template void reference_on_gpu(const Args<Op, ladder::half>&, ladder::AnswerOnGpu); \
  template void reference_on_gpu(const Args<Op, ladder::bfloat16>&, ladder::AnswerOnGpu)
INSTANTIATE(relu);
INSTANTIATE(add);
INSTANTIATE(gelu);
INSTANTIATE(gelu_tanh);
INSTANTIATE(gelu_tanh_approx);
INSTANTIATE(silu_mul);
INSTANTIATE(bias_gelu_residual);
#undef INSTANTIATE

}  // namespace elementwise
