// Idea      cuBLAS, the vendor's library, as the baseline
// Bound by  FMA throughput
// Limits    none
#include "gemm.hpp"
#include "harness/cuda/cublas.hpp"

namespace {

struct Cublas {
  static constexpr ladder::Version version{"NVIDIA's library, fp32 without TF32", true};

  static std::size_t workspace(const gemm::Args<float>&) { return ladder::kCublasWorkspace; }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    const float one = 1, zero = 0;
    // cuBLAS is column-major: C^T = B^T * A^T is the row-major C = A * B.
    LADDER_CUBLAS(cublasSgemm(ladder::cublas(stream, g.workspace), CUBLAS_OP_N, CUBLAS_OP_N, g.n,
                              g.m, g.k, &one, g.b, g.n, g.a, max(g.k, 1), &zero, g.c, g.n));
  }
};

const ladder::Register<Cublas, gemm, float> registration;

}  // namespace
