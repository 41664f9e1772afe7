// Idea      block size: 1024 threads
// Vs v32    a quarter of the blocks, the same threads per SM, in two blocks: 4 to 5 % slower at
//           large problems on an H200, up to 1 % faster on an H100
// Bound by  DRAM bandwidth
// Limits    none
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

using elementwise::relu;

constexpr int kBlock = 1024;

__global__ void __launch_bounds__(kBlock) one_vector(relu::Args<float> a) {
  using Vec = ladder::Vec128<float>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t vectors = a.n / Vec::size;
  if (thread < vectors) {
    Vec v = Vec::load(a.x[0] + thread * Vec::size);
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) v[e] = relu::apply({v[e]});
    v.store(a.y + thread * Vec::size);
  }
  const std::int64_t i = vectors * Vec::size + thread;
  if (i < a.n) a.y[i] = relu::apply({a.x[0][i]});
}

struct Block1024 {
  static constexpr ladder::Version version{"one vector per thread, blocks of 1024 threads"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<float>::size);
    ladder::launch(one_vector, ladder::ceil_div(vectors, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Block1024, relu, float> registration;

}  // namespace
