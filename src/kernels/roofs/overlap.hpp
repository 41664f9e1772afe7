// What the overlap versions run on the device: y = 2 x + 1.
#pragma once

#include "device/vector.hpp"
#include "transfer.hpp"

namespace roofs {

template <int kBlock>
__global__ void __launch_bounds__(kBlock) twice_plus_one(float* y, const float* x, std::int64_t n) {
  using Vec = ladder::Vec128<float>;
  const std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * Vec::size;
  if (i >= n) return;
  Vec v = Vec::load(x + i);
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) v[e] = 2 * v[e] + 1;
  v.store(y + i);
}

/// n is a multiple of 4.
inline void launch_twice_plus_one(float* y, const float* x, std::int64_t n, cudaStream_t stream) {
  constexpr int kBlock = 256;
  ladder::launch(twice_plus_one<kBlock>, ladder::ceil_div(n, 4 * kBlock), kBlock, 0, stream, y, x,
                 n);
}

}  // namespace roofs
