// Idea      the fused chain with all that v03 to v05 are about
// Vs v21    128-bit vectors, 4 of x and 4 of the residual in flight per thread, streaming hints.
//           The bias is loaded without one: it is what should stay in the caches
// Bound by  DRAM bandwidth
// Limits    none; arrays start at multiples of 16 bytes
#include "elementwise.hpp"
#include "harness/vector.hpp"

namespace {

using elementwise::bias_gelu_residual;
using elementwise::gelu;

constexpr int kBlock = 256;
constexpr int kVectors = 2;  // per thread
constexpr int kChannels = bias_gelu_residual::channels;

template <bool kWhole, class T>  // as in v04
__device__ void piece(const bias_gelu_residual::Args<T>& a, std::int64_t first,
                      std::int64_t vectors) {
  using Vec = ladder::Vec128<T>;
  static_assert(kChannels % Vec::size == 0, "a vector must not go beyond the last channel");
  Vec x[kVectors], residual[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
    x[j] = Vec::load_streaming(a.x + v * Vec::size);
    residual[j] = Vec::load_streaming(a.residual + v * Vec::size);
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t v = first + j * kBlock;
    if (!kWhole && v >= vectors) break;
    const Vec bias = Vec::load(a.bias + v * Vec::size % kChannels);
    Vec y;
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const float sum = static_cast<float>(x[j][e]) + static_cast<float>(bias[e]);
      y[e] = T(gelu::apply({sum}) + static_cast<float>(residual[j][e]));
    }
    y.store_streaming(a.y + v * Vec::size);
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock) fused_vec128(bias_gelu_residual::Args<T> a) {
  constexpr int kSize = ladder::Vec128<T>::size;
  const std::int64_t vectors = a.n / kSize;
  const std::int64_t begin = std::int64_t{blockIdx.x} * (kBlock * kVectors);  // of the block
  const std::int64_t first = begin + threadIdx.x;
  if (begin + kBlock * kVectors <= vectors) {
    piece<true>(a, first, vectors);
    return;
  }
  piece<false>(a, first, vectors);  // the last block

  const std::int64_t i = vectors * kSize + threadIdx.x;
  if (i < a.n) {
    const float sum = static_cast<float>(a.x[i]) + static_cast<float>(a.bias[i % kChannels]);
    a.y[i] = T(gelu::apply({sum}) + static_cast<float>(a.residual[i]));
  }
}

struct FusedVec128 {
  static constexpr ladder::Version version{"fused, streaming 128-bit vectors in flight"};

  template <class T>
  static void launch(const bias_gelu_residual::Args<T>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<T>::size);
    const std::int64_t blocks = ladder::ceil_div(vectors, kBlock * kVectors);
    ladder::launch(fused_vec128<T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<FusedVec128, bias_gelu_residual, float, ladder::bfloat16> registration;

}  // namespace
