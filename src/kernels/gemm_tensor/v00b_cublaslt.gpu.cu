// Idea      cuBLASLt, the vendor's library, and the fastest of the algorithms that it proposes:
//           they are timed when a problem is first prepared
// Vs v00    cuBLAS takes the algorithm that it expects to be the fastest. This one has fp8 too
// Bound by  tensor cores
// Limits    f16, bf16, tf32; e4m3 with B transposed; no empty matrices
//
// Its epilogue of bias and gelu is gelu in the form with tanh. Where rows of C do not start at
// multiples of 16 bytes its kernels round more often on the way than a result in fp16 allows.
#include "fastest.hpp"
#include "gemm_tensor.hpp"
#include "harness/cuda/cublas.hpp"

#include <map>
#include <tuple>
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

constexpr std::size_t kMostWorkspace = 32 << 20;  // bytes; what NVIDIA recommends for Hopper
constexpr int kMostAlgorithms = 16;
// Of parts of K: kept in fp32 and added in a step of their own. In fp16 they would be rounded twice.
constexpr std::uint32_t kReduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

cublasLtMatrixLayout_t layout(cudaDataType_t type, int rows, int row) {
  cublasLtMatrixLayout_t made = nullptr;
  // Column-major: what is a row to us is a column to cuBLAS.
  LADDER_CUBLAS(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(row),
                                           static_cast<std::uint64_t>(rows), row));
  return made;
}

struct Algorithm {
  cublasLtMatmulAlgo_t what;
  std::size_t workspace;  // bytes
};

/// How a problem is multiplied; made once, and kept as long as the process lives. cuBLAS is
/// column-major, so it computes C^T = B^T * A^T: its first operand is B.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t b = nullptr, a = nullptr, c = nullptr;
  std::vector<Algorithm> algorithms;  // after tune() only the fastest
};

template <class Op, class T>
Plan make_plan(const gemm_tensor::Problem& p) {
  Plan plan;
  LADDER_CUBLAS(cublasLtMatmulDescCreate(&plan.operation, kCompute<T>, CUDA_R_32F));
  const cublasOperation_t b = Op::kTransposedB ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t a = Op::kTransposedA ? CUBLAS_OP_T : CUBLAS_OP_N;
  LADDER_CUBLAS(
      cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b));
  LADDER_CUBLAS(
      cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a));
  if constexpr (kBiasGelu<Op>) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_GELU_BIAS;
    LADDER_CUBLAS(cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                 &epilogue, sizeof epilogue));
  }
  plan.b = Op::kTransposedB ? layout(kType<T>, p.n, p.k) : layout(kType<T>, p.k, p.n);
  plan.a = Op::kTransposedA ? layout(kType<T>, p.k, p.m) : layout(kType<T>, p.m, p.k);
  plan.c = layout(kType<typename Op::template Output<T>>, p.m, p.n);

  cublasLtMatmulPreference_t preference = nullptr;
  LADDER_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
  LADDER_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference,
                                                     CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                     &kMostWorkspace, sizeof kMostWorkspace));
  LADDER_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &kReduction, sizeof kReduction));
  cublasLtMatmulHeuristicResult_t proposed[kMostAlgorithms];
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(ladder::cublas_lt(), plan.operation, plan.b, plan.a, plan.c,
                                     plan.c, preference, kMostAlgorithms, proposed, &found);
  LADDER_CUBLAS(cublasLtMatmulPreferenceDestroy(preference));
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) LADDER_CUBLAS(status);
  for (int i = 0; i < found; ++i) {
    plan.algorithms.push_back({proposed[i].algo, proposed[i].workspaceSize});
  }
  return plan;
}

template <class Op, class T>
Plan& plan_of(const gemm_tensor::Problem& p) {
  static std::map<std::tuple<int, int, int>, Plan> plans;
  const auto [at, fresh] = plans.try_emplace({p.m, p.n, p.k});
  if (fresh) at->second = make_plan<Op, T>(p);
  return at->second;
}

/// One for every row of the column-major C^T.
void set_bias(Plan& plan, const void* bias) {
  LADDER_CUBLAS(cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &bias, sizeof bias));
}

cublasStatus_t multiply(const Plan& plan, const Algorithm& algorithm, const void* a, const void* b,
                        void* c, void* workspace, cudaStream_t stream) {
  const float one = 1, zero = 0;
  return cublasLtMatmul(ladder::cublas_lt(), plan.operation, &one, b, plan.b, a, plan.a, &zero, c,
                        plan.c, c, plan.c, &algorithm.what, workspace, algorithm.workspace, stream);
}

/// Leaves the plan with the fastest algorithm. What is multiplied goes elsewhere than to C, which
/// only a launch may write.
void tune(Plan& plan, const void* a, const void* b, std::size_t c_bytes) {
  const gemm_fastest::Scratch c(c_bytes, "another C, while algorithms are timed");
  const gemm_fastest::Scratch workspace(kMostWorkspace, "cuBLASLt's workspace");
  const int fastest = gemm_fastest::fastest(static_cast<int>(plan.algorithms.size()), [&](int i) {
    return multiply(plan, plan.algorithms[static_cast<std::size_t>(i)], a, b, c.data(),
                    workspace.data(), nullptr) == CUBLAS_STATUS_SUCCESS;
  });
  plan.algorithms = {plan.algorithms[static_cast<std::size_t>(fastest)]};
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
    return plan_of<Op, T>(p).algorithms.empty()
               ? ladder::unsupported("cublasLt has no algorithm for this type and size")
               : ladder::supported();
  }
  template <class T, class C>
  static std::size_t workspace(const gemm_tensor::Args<T, C>& g) {
    Plan& plan = plan_of<Op, T>({g.m, g.n, g.k});
    if constexpr (kBiasGelu<Op>) set_bias(plan, g.bias);
    if (plan.algorithms.size() > 1) {
      tune(plan, g.a, g.b, sizeof *g.c * static_cast<std::size_t>(g.m) * std::size_t(g.n));
    }
    return plan.algorithms.front().workspace;
  }
  template <class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, cudaStream_t stream) {
    Plan& plan = plan_of<Op, T>({g.m, g.n, g.k});
    if constexpr (kBiasGelu<Op>) set_bias(plan, g.bias);
    LADDER_CUBLAS(multiply(plan, plan.algorithms.front(), g.a, g.b, g.c, g.workspace, stream));
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
