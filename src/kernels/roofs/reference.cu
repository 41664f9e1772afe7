#include "reference.hpp"

#include "harness/cuda/error.hpp"

namespace roofs {
namespace {

__global__ void answers(dram::Args<float> a, std::int64_t n, ladder::AnswerOnGpu y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y.values[i] = answer(a, i);
  y.magnitude[i] = 0;
}

}  // namespace

void reference_on_gpu(const dram::Args<float>& a, ladder::AnswerOnGpu y) {
  constexpr int kBlock = 256;
  const std::int64_t n = a.sums - a.y + ladder::ceil_div(a.mix.reads, dram::kChunk);
  answers<<<static_cast<unsigned>(ladder::ceil_div(n, kBlock)), kBlock>>>(a, n, y);
  LADDER_CUDA(cudaGetLastError());
  LADDER_CUDA(cudaDeviceSynchronize());
}

}  // namespace roofs
