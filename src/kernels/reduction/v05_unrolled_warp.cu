// Idea      the last 64 numbers are one warp's work: six steps, written out, without a barrier of
//           the block
// Vs v04    3 barriers instead of 9, and no loop for the last steps
// Bound by  barriers, still; and few bytes are in flight: two loads per thread, then a tree
// Limits    none
//
// In 2007 the threads of a warp ran in step, and volatile was enough. Since Volta each has its own
// program counter: __syncwarp() says where a warp must have written, and where it must have read.
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;
static_assert(kBlock >= 64, "the warp at the end folds 64 numbers");

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
__global__ void unrolled_warp(const T* x, std::int64_t n, float* out) {
  float* const value = ladder::dynamic_shared<float>();  // [blockDim.x]
  const unsigned t = threadIdx.x;
  const std::int64_t i = std::int64_t{blockIdx.x} * (2 * blockDim.x) + t;
  const std::int64_t j = i + blockDim.x;
  const float first = i < n ? static_cast<float>(x[i]) : Op::identity();
  const float second = j < n ? static_cast<float>(x[j]) : Op::identity();
  value[t] = Op::combine(first, second);
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 32; s /= 2) {
    if (t < s) value[t] = Op::combine(value[t], value[t + s]);
    __syncthreads();
  }
  if (t < 32) {
    const float total = last_warp<Op>(value, t);
    if (t == 0) out[blockIdx.x] = total;
  }
}

struct UnrolledWarp {
  static constexpr ladder::Version version{"the last warp unrolled, without barriers"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return max(std::int64_t{1}, ladder::ceil_div(n, 2 * kBlock));
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(unrolled_warp<Op, T>, blocks<T>(n), kBlock, kBlock * sizeof(float), stream, x, n,
                   out);
  }
};

const ladder::Register<reduction::InPasses<UnrolledWarp>, reduction::sum, float> sum;

}  // namespace
