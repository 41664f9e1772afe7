// cuBLAS and cuBLASLt for baselines and references: one handle of each, errors as exceptions.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

namespace ladder {

/// The process's cuBLAS handle on a stream, made on first use with the default math mode (fp32
/// products in fp32, no TF32) and a workspace of its own, so that launches can be captured into
/// graphs and allocate nothing. Throws std::runtime_error.
cublasHandle_t cublas(cudaStream_t stream);

/// The process's cuBLASLt handle, made on first use. Throws std::runtime_error.
cublasLtHandle_t cublas_lt();

void cublas_check(cublasStatus_t status, const char* expression, const char* file, int line);

}  // namespace ladder

/// Evaluates a call of cuBLAS or cuBLASLt; throws std::runtime_error with the reason, the call and the place.
#define LADDER_CUBLAS(expression) \
  ::ladder::cublas_check((expression), #expression, __FILE__, __LINE__)
