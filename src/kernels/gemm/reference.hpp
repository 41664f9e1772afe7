// References of matrix products: on the CPU, and for those too big for it by cuBLAS, both in fp64.
#pragma once

#include "harness/family.hpp"

#include <cmath>

/// A matrix of [rows][columns], or, transposed, of [columns][rows].
template <class T>
struct GemmOperand {
  const T* data;
  bool transposed = false;
};

/// The values and magnitudes A * B and |A| * |B|, where A is M x K and B is K x N.
template <class T>
ladder::Expected gemm_reference(GemmOperand<T> a, GemmOperand<T> b, int m, int n, int k) {
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n),
             depth = static_cast<std::size_t>(k);
  std::vector<double> wide_b(depth * columns);  // [K][N]
  for (std::size_t i = 0; i < depth; ++i) {
    for (std::size_t col = 0; col < columns; ++col) {
      wide_b[i * columns + col] =
          ladder::widen(b.data[b.transposed ? col * depth + i : i * columns + col]);
    }
  }
  ladder::Expected c = ladder::zeros({m, n});
  ladder::parallel_for(rows, 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      double* value = &c.values[row * columns];
      double* magnitude = &c.magnitude[row * columns];
      for (std::size_t i = 0; i < depth; ++i) {
        const double factor =
            ladder::widen(a.data[a.transposed ? i * rows + row : row * depth + i]);
        for (std::size_t col = 0; col < columns; ++col) {
          const double product = factor * wide_b[i * columns + col];
          value[col] += product;
          magnitude[col] += std::abs(product);
        }
      }
    }
  });
  return c;
}

/// The same by cuBLAS; all pointers are the GPU's, those of c [M][N]. Values and magnitudes are checked
/// against sums made on the CPU at 64 elements. For the element types of gemm and gemm_tensor.
/// Throws std::runtime_error when CUDA or cuBLAS fails, or when an element is wrong.
template <class T>
void gemm_reference_on_gpu(GemmOperand<T> a, GemmOperand<T> b, int m, int n, int k,
                           ladder::AnswerOnGpu c);
