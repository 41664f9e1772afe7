// Idea      the fused chain with all that v03 and v04 are about
// Vs v21    128-bit vectors, 2 of x and 2 of the residual in flight per thread. One remainder per
//           vector finds its columns, and the bias comes out of the caches
// Bound by  DRAM bandwidth; with 2-byte elements nearly as much by instructions, 38 per element
// Limits    none; arrays start at multiples of 16 bytes. Where cols is no multiple of a vector, the
//           bias is loaded element by element
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

using elementwise::bias_gelu_residual;
using elementwise::gelu;

constexpr int kBlock = 256;
constexpr int kVectors = 2;  // per thread

/// The bias of the elements from number i on.
template <class T>
__device__ ladder::Vec128<T> bias_of(const bias_gelu_residual::Args<T>& a, std::int64_t i) {
  using Vec = ladder::Vec128<T>;
  std::int64_t column = i % a.cols;
  if (a.cols % Vec::size == 0) return Vec::load(a.bias + column);
  Vec bias;
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) {
    bias[e] = a.bias[column];
    if (++column == a.cols) column = 0;
  }
  return bias;
}

template <bool kWhole, class T>  // as in v04
__device__ void process_tile(const bias_gelu_residual::Args<T>& a, std::int64_t first,
                             std::int64_t vectors) {
  using Vec = ladder::Vec128<T>;
  Vec x[kVectors], residual[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
    x[j] = Vec::load(a.x + v * Vec::size);
    residual[j] = Vec::load(a.residual + v * Vec::size);
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
    const Vec bias = bias_of(a, v * Vec::size);
    Vec y;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float sum = static_cast<float>(x[j][e]) + static_cast<float>(bias[e]);
      y[e] = T(gelu::apply({sum}) + static_cast<float>(residual[j][e]));
    }
    y.store(a.y + v * Vec::size);
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock) fused_vec128(bias_gelu_residual::Args<T> a) {
  constexpr int kSize = ladder::Vec128<T>::size;
  const std::int64_t vectors = a.n / kSize;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (kBlock * kVectors);  // of the block
  const std::int64_t first = begin + threadIdx.x;
  if (begin + kBlock * kVectors <= vectors) {
    process_tile<true>(a, first, vectors);
    return;
  }
  process_tile<false>(a, first, vectors);  // the last block

  const std::int64_t i = vectors * kSize + threadIdx.x;
  if (i < a.n) {
    const float sum = static_cast<float>(a.x[i]) + static_cast<float>(a.bias[i % a.cols]);
    a.y[i] = T(gelu::apply({sum}) + static_cast<float>(a.residual[i]));
  }
}

struct FusedVec128 {
  static constexpr ladder::Version version{"fused, 128-bit vectors in flight"};

  template <class T>
  static void launch(const bias_gelu_residual::Args<T>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    const std::int64_t blocks = ladder::ceil_div(vectors, kBlock * kVectors);
    ladder::launch(fused_vec128<T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<FusedVec128, bias_gelu_residual, float> registration;

}  // namespace
