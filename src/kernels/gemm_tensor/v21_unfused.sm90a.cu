// Idea      bias and gelu behind a product, in two kernels: v13, and one that reads C, adds the
//           bias, applies gelu and writes C
// Vs v13    C goes to memory three times instead of once: written, read, written again. The product
//           is rounded to 16 bits on the way
// Bound by  the product by power, the second kernel by DRAM bandwidth
// Limits    compute capability 9.0; all rows start at multiples of 16 bytes
// Tile      of the product as in v13. In the second kernel a thread has 8 columns and 4 rows: one
//           vector of the bias, and 4 of C in flight
#include "device/vector.hpp"
#include "epilogue.hpp"
#include "k_tiles.hpp"
#include "persistent.hpp"

namespace {

constexpr int kBlock = 256;  // threads
constexpr int kRows = 4;     // of a thread

template <class T>
__global__ void __launch_bounds__(kBlock) bias_gelu(T* c, const T* bias, int m, int n, int pieces) {
  using Vec = ladder::Vec128<T>;
  const std::int64_t column =
      (std::int64_t{blockIdx.x % pieces} * kBlock + threadIdx.x) * Vec::size;
  const int row0 = blockIdx.x / pieces * kRows;
  if (column >= n) return;
  const Vec b = Vec::load(bias + column);
  Vec v[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (row0 + r < m) v[r] = Vec::load(c + std::int64_t{row0 + r} * n + column);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (row0 + r >= m) break;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float sum = static_cast<float>(v[r][e]) + static_cast<float>(b[e]);
      v[r][e] = T(gemm_k_tiles::gelu(sum));
    }
    v[r].store(c + std::int64_t{row0 + r} * n + column);
  }
}

struct Unfused {
  static constexpr ladder::Version version{"v13, and a second kernel for bias and gelu"};

  template <class T>
  static void launch(const gemm_tensor::Args<T>& g, cudaStream_t stream) {
    if (g.m == 0 || g.n == 0) return;
    if (!gemm_k_tiles::launch_empty(g, stream)) gemm_persistent::launch<gemm_tensor_nt>(g, stream);
    const int pieces = ladder::ceil_div(g.n, kBlock * ladder::Vec128<T>::size);  // of a row
    const std::int64_t blocks = std::int64_t{pieces} * ladder::ceil_div(g.m, kRows);
    ladder::launch(bias_gelu<T>, static_cast<unsigned>(blocks), kBlock, 0, stream, g.c, g.bias, g.m,
                   g.n, pieces);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    return gemm_k_tiles::supports<gemm_tensor_nt>(p);
  }
};

const ladder::Register<Unfused, gemm_tensor_nt_bias_gelu, half, ladder::bfloat16> registration;

}  // namespace
