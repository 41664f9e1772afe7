// Idea      block size: v06 with 64, 128, 512 and 1024 threads per block instead of 256
// Vs v06    64 threads have no step of the tree before the last warp's, and no barrier but the one
//           after loading, 128 one barrier less than 256, 512 one more, 1024 two; at each of these
//           the whole block waits
// Bound by  with 64 threads starting blocks, each of which reads 512 bytes: the most that fit an SM, 32
//           on an H100, are just enough to fill it. With 128 starting blocks, and few bytes in flight;
//           with 512 few bytes in flight, and barriers. With 1024 barriers: two blocks fill an SM, so
//           that half of it is idle whenever one of them is in its tree
// Limits    none
#include "passes.hpp"

namespace {

/// Folds value[0 … 64); lane 0 of the calling warp returns the result, other lanes leftovers.
template <class Op>
__device__ float last_warp(float* value, unsigned lane) {
  float mine = Op::combine(value[lane], value[lane + 32]);
#pragma unroll
  for (unsigned s = 16; s > 0; s /= 2) {
    value[lane] = mine;
    __syncwarp();  // all have written
    mine = Op::combine(mine, value[lane + s]);
    __syncwarp();  // all have read
  }
  return mine;
}

template <class Op, class T, int kBlock>
__global__ void __launch_bounds__(kBlock) unrolled(const T* x, std::int64_t n, float* out) {
  __shared__ float value[kBlock];
  const unsigned t = threadIdx.x;
  const std::int64_t i = std::int64_t{blockIdx.x} * (2 * kBlock) + t;
  const std::int64_t j = i + kBlock;
  const float first = i < n ? static_cast<float>(x[i]) : Op::identity();
  const float second = j < n ? static_cast<float>(x[j]) : Op::identity();
  value[t] = Op::combine(first, second);
  __syncthreads();
#pragma unroll
  for (unsigned s = kBlock / 2; s > 32; s /= 2) {
    if (t < s) value[t] = Op::combine(value[t], value[t + s]);
    __syncthreads();
  }
  if (t < 32) {
    const float total = last_warp<Op>(value, t);
    if (t == 0) out[blockIdx.x] = total;
  }
}

template <int kBlock>
struct BlockSize {
  static constexpr ladder::Version version{.idea = "v06 with blocks of this size",
                                           .variant = ladder::Digits<kBlock>::text};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return max(std::int64_t{1}, ladder::ceil_div(n, 2 * kBlock));
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(unrolled<Op, T, kBlock>, blocks<T>(n), kBlock, 0, stream, x, n, out);
  }
};

const ladder::Register<reduction::InPasses<BlockSize<64>>, reduction::sum, float> of_64;
const ladder::Register<reduction::InPasses<BlockSize<128>>, reduction::sum, float> of_128;
const ladder::Register<reduction::InPasses<BlockSize<512>>, reduction::sum, float> of_512;
const ladder::Register<reduction::InPasses<BlockSize<1024>>, reduction::sum, float> of_1024;

}  // namespace
