// Idea      a tree in shared memory: in step s every thread whose number is a multiple of 2s adds
//           its neighbour at distance s
// Vs        the loop on a CPU: the sum no longer waits for one addition after the other, a block of
//           256 numbers takes 8 steps
// Bound by  instructions: % by a number that is no constant takes some twenty of them, and because
//           the threads at work are spread over all warps, every warp goes through every step
// Limits    none
//
// v01 to v07 are the seven steps of Mark Harris, Optimizing Parallel Reduction in CUDA (2007).
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;

template <class Op, class T>
__global__ void divergent(const T* x, std::int64_t n, float* out) {
  float* const value = ladder::dynamic_shared<float>();  // [blockDim.x]
  const unsigned t = threadIdx.x;
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + t;
  value[t] = i < n ? static_cast<float>(x[i]) : Op::identity();
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if (t % (2 * s) == 0) value[t] = Op::combine(value[t], value[t + s]);
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = value[0];
}

struct Divergent {
  static constexpr ladder::Version version{"a tree of neighbours, threads diverge"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return max(std::int64_t{1}, ladder::ceil_div(n, kBlock));
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(divergent<Op, T>, blocks<T>(n), kBlock, kBlock * sizeof(float), stream, x, n,
                   out);
  }
};

const ladder::Register<reduction::InPasses<Divergent>, reduction::sum, float, ladder::half,
                       ladder::bfloat16>
    sum;
const ladder::Register<reduction::InPasses<Divergent>, reduction::max, float, ladder::half,
                       ladder::bfloat16>
    max;

}  // namespace
