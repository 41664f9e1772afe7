// Idea      cuBLAS, the vendor's library, as the baseline: geam, C = alpha op(A) + beta op(B)
// Bound by  DRAM bandwidth
// Limits    f32
#include "harness/cuda/cublas.hpp"
#include "transpose.hpp"

namespace {

struct Cublas {
  static constexpr ladder::Version version{"NVIDIA's library, geam", true};

  static void launch(const transpose::Args<float>& a, cudaStream_t stream) {
    if (a.rows == 0 || a.cols == 0) return;
    const float one = 1, zero = 0;
    // cuBLAS is column-major: a row-major [rows][cols] is its cols x rows matrix. B is not read
    // when beta is 0, and may then be C. geam takes no scratch memory.
    LADDER_CUBLAS(cublasSgeam(ladder::cublas(stream, nullptr), CUBLAS_OP_T, CUBLAS_OP_N, a.rows,
                              a.cols, &one, a.in, a.cols, &zero, a.out, a.rows, a.out, a.rows));
  }
};

const ladder::Register<Cublas, transpose, float> registration;

}  // namespace
