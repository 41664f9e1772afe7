// The reference of products too big for the CPU: cuBLAS in fp64.
#pragma once

#include "gemm.hpp"

/// values = A * B and magnitude = |A| * |B| in fp64; all pointers are the GPU's, [M][N]. Both are
/// checked against sums made on the CPU at 64 elements. Throws std::runtime_error when CUDA or
/// cuBLAS fails, or when an element is wrong.
void gemm_reference(const gemm::Args<float>& args, double* values, double* magnitude);
