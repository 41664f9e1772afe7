// The right answer of nt_bias_gelu in fp64, and how far a correct kernel may be from it. The same
// source makes the reference on the CPU and, for big problems, on the GPU.
#pragma once

#include "device/kernel.hpp"
#include "harness/check.hpp"
#include "kernels/elementwise/reference.hpp"

namespace gemm_tensor_reference {

using elementwise::Answer;

/// With P = A * B, s = P + bias and y = gelu(s), and with t the unit roundoff of T:
///
/// The product has the error of every product, `of_the_product`, and before a second kernel adds
/// the bias it is rounded to T: t |P| more. Both reach y times the slope of gelu, at most 1.13.
///
/// gelu itself, x/2 (1 + tanh w), with the hardware's tanh: that is within 2^-11 of its result (PTX
/// ISA, tanh.approx), which is 1 at most, so y is wrong by up to 2^-12 |s|. That is half of what
/// rounding s to f16 may cost, and a sixteenth for bf16. Everything else is in fp32, with
/// u = 2^-24: s is rounded (1.13 u |s|), the argument w carries four roundings, which move tanh by
/// at most 4u max|w tanh'(w)| = 4u * 0.448 and y by |s| / 2 of that, and the last step rounds:
/// u |y|. All that is less than 4u |s|.
///
/// At last y is rounded to T, with the errors it has by then. Where P and y are so small that T has
/// fewer digits for them, each rounding costs half of its smallest number.
template <class T>
__host__ __device__ Answer bias_gelu(double product, double of_the_product, T bias) {
  constexpr double t = elementwise::kNarrowing<T>;
  const double s = product + ladder::widen(bias);
  const double y = elementwise::gelu_tanh_answer(s, 0, 0, 0).value;
  const double before = 1.13 * (of_the_product + t * fabs(product)) + (0x1p-12 + 0x1p-22) * fabs(s);
  return {y, (1 + t) * before + t * fabs(y) + 1.5 * elementwise::kSmallest<T>};
}

/// The same for C of m x n on the GPU, in place: values are the products, magnitudes |A| * |B|, and
/// of_the_product `scaled` times that. Throws std::runtime_error when CUDA fails.
template <class T>
void bias_gelu_on_gpu(const T* bias, int m, int n, double scaled, ladder::AnswerOnGpu c);

}  // namespace gemm_tensor_reference
