// The kernel of v30 to v33, which differ in the threads per block alone: one 128-bit vector per
// thread, so that resident threads are bytes in flight, and blocks are n / (4 * kBlock).
#pragma once

#include "device/vector.hpp"
#include "elementwise.hpp"

namespace elementwise {

template <int kBlock>
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

template <int kBlock>
void launch_one_vector(const relu::Args<float>& a, cudaStream_t stream) {
  const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<float>::size);
  ladder::launch(one_vector<kBlock>, ladder::ceil_div(vectors, kBlock), kBlock, 0, stream, a);
}

}  // namespace elementwise
