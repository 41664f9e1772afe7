// Idea      one launch adds the residual, a second one, of v08's kernel, normalizes the sum: what
//           frameworks do by default
// Vs v08    another operation: LayerNorm of x + residual, and the sum
// Bound by  DRAM bandwidth: 5n, for the second launch reads the sum again, as far as it is not in
//           L2
// Limits    none. x, residual and sum start at multiples of 16 bytes.
#include "device/vector.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace {

constexpr int kBlock = 256;

template <class T>
__global__ void add(const T* x, const T* residual, T* sum, std::int64_t n) {
  using Vec = ladder::Vec128<T>;
  auto result = [](T a, T b) { return T(static_cast<float>(a) + static_cast<float>(b)); };
  const std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * Vec::size;
  if (i + Vec::size <= n) {
    const Vec a = Vec::load(x + i), b = Vec::load(residual + i);
    Vec out;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) out[e] = result(a[e], b[e]);
    out.store(sum + i);
  } else {
    for (std::int64_t j = i; j < n; ++j) sum[j] = result(x[j], residual[j]);
  }
}

struct UnfusedAdd {
  static constexpr ladder::Version version{"two launches: the sum, then LayerNorm"};

  template <class T>
  static void launch(const layernorm_add::Args<T>& a, cudaStream_t stream) {
    const std::int64_t n = std::int64_t{a.rows} * a.cols;
    const std::int64_t vectors = ladder::ceil_div(n, ladder::Vec128<T>::size);
    ladder::launch(add<T>, ladder::ceil_div(vectors, kBlock), kBlock, 0, stream, a.x, a.residual,
                   a.sum, n);
    const layernorm::Args<T> normalized{.x = a.sum,
                                        .weight = a.weight,
                                        .bias = a.bias,
                                        .y = a.y,
                                        .rows = a.rows,
                                        .cols = a.cols,
                                        .epsilon = a.epsilon,
                                        .workspace = nullptr};
    row_norm::launch_prefetch<layernorm>(normalized, stream);
  }
};

const ladder::Register<UnfusedAdd, layernorm_add, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
