// Idea      cuBLASLt, the vendor's library, and the fastest of the algorithms that it proposes:
//           they are timed to plan a problem; where nothing may be timed the first is taken
// Vs v00    cuBLAS takes the algorithm that it expects to be the fastest. This one has fp8 too
// Bound by  tensor cores
// Limits    f16, bf16, tf32; e4m3 with B transposed; no empty matrices
//
// Its epilogue of bias and gelu is gelu in the form with tanh. Where rows of C do not start at
// multiples of 16 bytes its kernels round more often on the way than a result in fp16 allows.
#include "fastest.hpp"
#include "gemm_tensor.hpp"
#include "harness/cuda/cublas.hpp"

#include <memory>
#include <vector>

namespace {

template <class T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<ladder::half> = CUDA_R_16F;
template <>
constexpr cudaDataType_t kType<ladder::bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<ladder::float8_e4m3> = CUDA_R_8F_E4M3;

template <class T>
constexpr cublasComputeType_t kCompute =
    std::is_same_v<T, ladder::tfloat32> ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;

/// Whether a product goes on as gelu(product + bias).
template <class Op>
constexpr bool kBiasGelu = std::is_same_v<Op, gemm_tensor_nt_bias_gelu>;

constexpr int kMostAlgorithms = 16;
// Of parts of K: kept in fp32 and added in a step of their own. In fp16 they would be rounded twice.
constexpr std::uint32_t kReduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

struct Destroy {
  void operator()(cublasLtMatmulDesc_t one) const { cublasLtMatmulDescDestroy(one); }
  void operator()(cublasLtMatrixLayout_t one) const { cublasLtMatrixLayoutDestroy(one); }
  void operator()(cublasLtMatmulPreference_t one) const { cublasLtMatmulPreferenceDestroy(one); }
};
template <class Pointer>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroy>;
using Operation = Owned<cublasLtMatmulDesc_t>;
using Layout = Owned<cublasLtMatrixLayout_t>;
using Preference = Owned<cublasLtMatmulPreference_t>;

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  LADDER_CUBLAS(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value));
}
template <class T>
void set(const Preference& of, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  LADDER_CUBLAS(cublasLtMatmulPreferenceSetAttribute(of.get(), attribute, &value, sizeof value));
}

/// The bias is one number for every row of the column-major C^T.
template <class Op, class T>
Operation operation_of(const T* bias) {
  cublasLtMatmulDesc_t made = nullptr;
  LADDER_CUBLAS(cublasLtMatmulDescCreate(&made, kCompute<T>, CUDA_R_32F));
  Operation operation(made);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, Op::kTransposedB ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, Op::kTransposedA ? CUBLAS_OP_T : CUBLAS_OP_N);
  if constexpr (kBiasGelu<Op>) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
  }
  return operation;
}

Layout layout_of(cudaDataType_t type, int rows, int row) {
  cublasLtMatrixLayout_t made = nullptr;
  // Column-major: what is a row to us is a column to cuBLAS.
  LADDER_CUBLAS(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(row),
                                           static_cast<std::uint64_t>(rows), row));
  return Layout(made);
}

/// Bytes of which an address is a multiple, up to 256.
std::uint32_t alignment_of(const void* address) {
  const std::uint32_t bits =
      256 | static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address));
  return bits & -bits;
}

struct Algorithm {
  cublasLtMatmulAlgo_t what;
  std::size_t workspace;  // bytes
};

/// How a problem is multiplied. cuBLAS is column-major, so it computes C^T = B^T * A^T: its first
/// operand is B.
struct Multiplication {
  Operation operation;
  Layout b, a, c;
  std::vector<Algorithm> algorithms;  // planned: one
};

/// With all algorithms that are proposed for matrices which start as g's do.
template <class Op, class T, class C>
Multiplication proposed(const gemm_tensor::Args<T, C>& g) {
  Multiplication made{
      operation_of<Op>(g.bias),
      Op::kTransposedB ? layout_of(kType<T>, g.n, g.k) : layout_of(kType<T>, g.k, g.n),
      Op::kTransposedA ? layout_of(kType<T>, g.k, g.m) : layout_of(kType<T>, g.m, g.k),
      layout_of(kType<C>, g.m, g.n),
      {}};

  cublasLtMatmulPreference_t preference = nullptr;
  LADDER_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
  const Preference preferred(preference);
  set(preferred, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, ladder::kCublasWorkspace);
  set(preferred, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReduction);
  set(preferred, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b));
  set(preferred, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a));
  set(preferred, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(g.c));
  set(preferred, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(g.c));
  cublasLtMatmulHeuristicResult_t all[kMostAlgorithms];
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      ladder::cublas_lt(), made.operation.get(), made.b.get(), made.a.get(), made.c.get(),
      made.c.get(), preferred.get(), kMostAlgorithms, all, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) LADDER_CUBLAS(status);
  for (int i = 0; i < found; ++i) made.algorithms.push_back({all[i].algo, all[i].workspaceSize});
  return made;
}

template <class T, class C>
cublasStatus_t multiply(const Multiplication& by, const Operation& operation,
                        const Algorithm& algorithm, const gemm_tensor::Args<T, C>& g,
                        cudaStream_t stream) {
  const float one = 1, zero = 0;
  return cublasLtMatmul(ladder::cublas_lt(), operation.get(), &one, g.b, by.b.get(), g.a,
                        by.a.get(), &zero, g.c, by.c.get(), g.c, by.c.get(), &algorithm.what,
                        g.workspace, algorithm.workspace, stream);
}

/// The fastest algorithm, on matrices in place of g's.
template <class Op, class T, class C>
Algorithm fastest(const Multiplication& of, gemm_tensor::Args<T, C> g) {
  const std::size_t m = g.m, n = g.n, k = g.k;
  const gemm_fastest::Operand<T> a(g.a, m * k), b(g.b, k * n), bias(g.bias, n);
  const gemm_fastest::Scratch c(sizeof(C) * m * n, "C, while algorithms are timed", g.c);
  const gemm_fastest::Scratch workspace(ladder::kCublasWorkspace, "cuBLASLt's workspace");
  g.a = a.data();
  g.b = b.data();
  g.c = static_cast<C*>(c.data());
  g.workspace = workspace.data();
  const Operation operation = operation_of<Op>(bias.data());
  return of.algorithms[gemm_fastest::fastest(static_cast<int>(of.algorithms.size()), [&](int i) {
    return multiply(of, operation, of.algorithms[i], g, nullptr) == CUBLAS_STATUS_SUCCESS;
  })];
}

template <class Op>
struct CublasLt {
  static constexpr ladder::Version version{"NVIDIA's library, the fastest of cublasLt's algorithms",
                                           true};

  template <class T>
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.m == 0 || p.n == 0 || p.k == 0) return ladder::unsupported("cublasLt: empty matrices");
    if (kBiasGelu<Op> && p.n % 8 != 0) {
      return ladder::unsupported("cublasLt's gelu is less exact where rows of C are not aligned");
    }
    const typename Op::template Args<T> anywhere{nullptr, nullptr, nullptr, p.m, p.n, p.k};
    return proposed<Op>(anywhere).algorithms.empty()
               ? ladder::unsupported("cublasLt has no algorithm for this type and size")
               : ladder::supported();
  }
  template <class T, class C>
  static Multiplication plan(const gemm_tensor::Args<T, C>& g, bool may_time) {
    Multiplication planned = proposed<Op>(g);
    if (planned.algorithms.empty()) throw std::runtime_error("cublasLt has no algorithm");
    planned.algorithms = {may_time ? fastest<Op>(planned, g) : planned.algorithms.front()};
    return planned;
  }
  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>&, const Multiplication& by) {
    return by.algorithms.front().workspace;
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Multiplication& by,
                     cudaStream_t stream) {
    const Algorithm& algorithm = by.algorithms.front();
    if constexpr (kBiasGelu<Op>) {  // a bias is a part of the operation
      LADDER_CUBLAS(multiply(by, operation_of<Op>(g.bias), algorithm, g, stream));
    } else {
      LADDER_CUBLAS(multiply(by, by.operation, algorithm, g, stream));
    }
  }
};

using ladder::bfloat16;
using ladder::float8_e4m3;
using ladder::half;
using ladder::tfloat32;
const ladder::Register<CublasLt<gemm_tensor_nn>, gemm_tensor_nn, half, bfloat16, tfloat32> nn;
const ladder::Register<CublasLt<gemm_tensor_nt>, gemm_tensor_nt, half, bfloat16, tfloat32,
                       float8_e4m3>
    nt;
const ladder::Register<CublasLt<gemm_tensor_tn>, gemm_tensor_tn, half, bfloat16, tfloat32> tn;
const ladder::Register<CublasLt<gemm_tensor_nt_bias_gelu>, gemm_tensor_nt_bias_gelu, half, bfloat16>
    nt_bias_gelu;
const ladder::Register<CublasLt<gemm_tensor_tn_f32>, gemm_tensor_tn_f32, half, bfloat16> tn_f32;

}  // namespace
