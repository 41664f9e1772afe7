// The right answers of the dram roof, element by element; the same source gives the reference on
// the CPU and, for big problems, on the GPU.
#pragma once

#include "harness/check.hpp"
#include "roofs.hpp"

namespace roofs {

/// Element i of the output: of y, or of the sums behind it.
__host__ __device__ inline double answer(const dram::Args<float>& a, std::int64_t i) {
  const Mix& mix = a.mix;
  const std::int64_t stream = 4 * mix.length;
  const std::int64_t moved = mix.outputs * stream, written = moved + 4 * mix.writes;
  double sum = 0;
  if (i < moved) {
    for (int k = 0; k < mix.inputs; ++k) sum += a.x[k * stream + i % stream];
    return sum;
  }
  if (i < written) return dram::kWritten;
  const std::int64_t chunk = i - written, left = 4 * mix.reads;
  const std::int64_t begin = chunk * 4 * dram::kChunk, end = begin + 4 * dram::kChunk;
  for (std::int64_t k = begin; k < end && k < left; ++k) sum += a.x[mix.inputs * stream + k];
  return sum;
}

/// answer() of every element, computed on the GPU, and 0 as its magnitude; all pointers are the GPU's.
/// Throws std::runtime_error when CUDA fails.
void reference_on_gpu(const dram::Args<float>& a, ladder::AnswerOnGpu y);

}  // namespace roofs
