// Idea      a warp's tree by shuffles, which hand numbers from register to register
// Vs v07    32 bytes of shared memory instead of 1 KiB, and one barrier instead of three; the tree
//           is a small part of the work: on an H200 the time is v07's, within 0.5 %
// Bound by  bytes in flight, as v07
// Limits    none
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kTile = 16 * kBlock;  // elements that are worth a block

/// Combines the values of a warp's lanes; lane 0 returns the result.
template <class Op>
__device__ float warp_reduce(float mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    mine = Op::combine(mine, __shfl_down_sync(0xffffffffu, mine, s));
  }
  return mine;
}

/// Combines the values of the block's threads, by way of of_warp in shared memory; thread 0 returns
/// the result.
template <class Op>
__device__ float block_reduce(float mine, float (&of_warp)[kBlock / 32]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = warp_reduce<Op>(mine);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  if (warp == 0) {
    mine = warp_reduce<Op>(lane < kBlock / 32 ? of_warp[lane] : Op::identity());
  }
  return mine;
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) shuffle(const T* x, std::int64_t n, float* out) {
  __shared__ float of_warp[kBlock / 32];
  const std::int64_t stride = std::int64_t{gridDim.x} * (2 * kBlock);
  float mine = Op::identity();
#pragma unroll 1  // more loads in flight are v09's idea
  for (std::int64_t i = std::int64_t{blockIdx.x} * (2 * kBlock) + threadIdx.x; i < n; i += stride) {
    const std::int64_t j = i + kBlock;
    const float first = static_cast<float>(x[i]);
    const float second = j < n ? static_cast<float>(x[j]) : Op::identity();
    mine = Op::combine(mine, Op::combine(first, second));
  }
  const float total = block_reduce<Op>(mine, of_warp);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

struct Shuffled {
  static constexpr ladder::Version version{"warp shuffles instead of shared memory"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return reduction::blocks_for(n, kTile);
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(shuffle<Op, T>, blocks<T>(n), kBlock, 0, stream, x, n, out);
  }
};

const ladder::Register<reduction::InPasses<Shuffled>, reduction::sum, float> sum;

}  // namespace
