// Idea      cuBLAS, the vendor's library, as the baseline
// Bound by  tensor cores; for f32, which is without TF32, the CUDA cores
// Limits    f16, bf16, tf32, f32
#include "gemm_tensor.hpp"
#include "harness/cuda/cublas.hpp"

namespace {

template <class T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<ladder::half> = CUDA_R_16F;
template <>
constexpr cudaDataType_t kType<ladder::bfloat16> = CUDA_R_16BF;

template <class T>
constexpr cublasComputeType_t kCompute =
    std::is_same_v<T, ladder::tfloat32> ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;

template <class Op>
struct Cublas {
  static constexpr ladder::Version version{"NVIDIA's library, cublasGemmEx", true};

  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>&) {
    return ladder::kCublasWorkspace;
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    const float one = 1, zero = 0;
    const int row_a = Op::kTransposedA ? g.m : g.k, row_b = Op::kTransposedB ? g.k : g.n;
    // cuBLAS is column-major: C^T = B^T * A^T is the row-major C = A * B.
    LADDER_CUBLAS(cublasGemmEx(ladder::cublas(stream, g.workspace),
                               Op::kTransposedB ? CUBLAS_OP_T : CUBLAS_OP_N,
                               Op::kTransposedA ? CUBLAS_OP_T : CUBLAS_OP_N, g.n, g.m, g.k, &one,
                               g.b, kType<T>, max(row_b, 1), g.a, kType<T>, max(row_a, 1), &zero,
                               g.c, kType<C>, g.n, kCompute<T>, CUBLAS_GEMM_DEFAULT));
  }
};

using ladder::bfloat16;
using ladder::half;
using ladder::tfloat32;
const ladder::Register<Cublas<gemm_tensor_nn>, gemm_tensor_nn, half, bfloat16, tfloat32, float> nn;
const ladder::Register<Cublas<gemm_tensor_nt>, gemm_tensor_nt, half, bfloat16, tfloat32> nt;
const ladder::Register<Cublas<gemm_tensor_tn>, gemm_tensor_tn, half, bfloat16, tfloat32> tn;
const ladder::Register<Cublas<gemm_tensor_tn>, gemm_tensor_tn_f32, half, bfloat16> tn_f32;

}  // namespace
