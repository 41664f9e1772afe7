// Idea      the block's size is a template parameter: the compiler writes out the whole tree
// Vs v05    no loop counter, no comparison with it, and addresses that are constants
// Bound by  few bytes in flight: two loads per thread, then a tree during which nothing is loaded
// Limits    none
//
// v20 has this kernel with other block sizes.
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
  static_assert(kBlock >= 64, "the warp at the end folds 64 numbers");
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

struct Unrolled {
  static constexpr ladder::Version version{"block size as template parameter, all unrolled"};
  static constexpr int kBlock = 256;

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return max(std::int64_t{1}, ladder::ceil_div(n, 2 * kBlock));
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(unrolled<Op, T, kBlock>, blocks<T>(n), kBlock, 0, stream, x, n, out);
  }
};

const ladder::Register<reduction::InPasses<Unrolled>, reduction::sum, float> sum;

}  // namespace
