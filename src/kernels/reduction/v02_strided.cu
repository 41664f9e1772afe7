// Idea      the same tree, but its additions are done by the first threads of the block
// Vs v01    thread t takes the pair at 2st instead of sitting idle unless t is a multiple of 2s: no
//           %, and warps that have nothing to do skip the step as a whole
// Bound by  shared memory and barriers: the threads of a warp now access numbers 2s apart, of which
//           up to 16 lie in the same bank
// Limits    none
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;

template <class Op, class T>
__global__ void strided(const T* x, std::int64_t n, float* out) {
  float* const value = ladder::dynamic_shared<float>();  // [blockDim.x]
  const unsigned t = threadIdx.x;
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + t;
  value[t] = i < n ? static_cast<float>(x[i]) : Op::identity();
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned at = 2 * s * t;
    if (at < blockDim.x) value[at] = Op::combine(value[at], value[at + s]);
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = value[0];
}

struct Strided {
  static constexpr ladder::Version version{"the first threads do the tree, with bank conflicts"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return max(std::int64_t{1}, ladder::ceil_div(n, kBlock));
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(strided<Op, T>, blocks<T>(n), kBlock, kBlock * sizeof(float), stream, x, n, out);
  }
};

const ladder::Register<reduction::InPasses<Strided>, reduction::sum, float> sum;

}  // namespace
