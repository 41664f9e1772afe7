#include "reference.hpp"

#include "harness/cuda/error.hpp"

namespace gemm_tensor_reference {
namespace {

template <class T>
__global__ void add_bias_gelu(const T* bias, int n, double scaled, ladder::AnswerOnGpu c,
                              std::int64_t elements) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  const Answer y = bias_gelu(c.values[i], scaled * c.magnitude[i], bias[i % n]);
  c.values[i] = y.value;
  c.magnitude[i] = y.allowed;
}

}  // namespace

template <class T>
void bias_gelu_on_gpu(const T* bias, int m, int n, double scaled, ladder::AnswerOnGpu c) {
  const std::int64_t elements = std::int64_t{m} * n;
  if (elements == 0) return;
  const auto blocks = static_cast<unsigned>(ladder::ceil_div(elements, 256));
  add_bias_gelu<<<blocks, 256>>>(bias, n, scaled, c, elements);
  LADDER_CUDA(cudaGetLastError());
  LADDER_CUDA(cudaDeviceSynchronize());
}

template void bias_gelu_on_gpu(const ladder::half*, int, int, double, ladder::AnswerOnGpu);
template void bias_gelu_on_gpu(const ladder::bfloat16*, int, int, double, ladder::AnswerOnGpu);

}  // namespace gemm_tensor_reference
