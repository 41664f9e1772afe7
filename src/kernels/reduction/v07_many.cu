// Idea      each thread adds up many numbers before the one tree of its block
// Vs v06    v06's two loads in a loop: the number of blocks no longer grows with n but stays at
//           16384, at 2^28 one tree and one start of a block per 16384 numbers instead of 512
// Bound by  bytes in flight: the 2048 threads of an SM wait for two loads each, 16 KiB of fp32 or
//           8 KiB of 16-bit elements; it takes some 40 KiB to keep an H100's memory busy
// Limits    none
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kTile = 16 * kBlock;  // elements that are worth a block

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

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) many(const T* x, std::int64_t n, float* out) {
  __shared__ float value[kBlock];
  const unsigned t = threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * (2 * kBlock);
  float mine = Op::identity();
#pragma unroll 1  // more loads in flight are v09's idea
  for (std::int64_t i = std::int64_t{blockIdx.x} * (2 * kBlock) + t; i < n; i += stride) {
    const std::int64_t j = i + kBlock;
    const float first = static_cast<float>(x[i]);
    const float second = j < n ? static_cast<float>(x[j]) : Op::identity();
    mine = Op::combine(mine, Op::combine(first, second));
  }
  value[t] = mine;
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

struct Many {
  static constexpr ladder::Version version{"many elements per thread, a grid of limited size"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return reduction::blocks_for(n, kTile);
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(many<Op, T>, blocks<T>(n), kBlock, 0, stream, x, n, out);
  }
};

const ladder::Register<reduction::InPasses<Many>, reduction::sum, float> sum;

}  // namespace
