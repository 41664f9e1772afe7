// Idea      fold the numbers in half, again and again: thread t adds the one at t + s, s halving
// Vs v02    the threads of a warp access neighbouring numbers: no bank conflicts
// Bound by  barriers, at which a block waits eight times for one load per thread; and half of the
//           threads never add anything
// Limits    none
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;

template <class Op, class T>
__global__ void sequential(const T* x, std::int64_t n, float* out) {
  float* const value = ladder::dynamic_shared<float>();  // [blockDim.x]
  const unsigned t = threadIdx.x;
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + t;
  value[t] = i < n ? static_cast<float>(x[i]) : Op::identity();
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s) value[t] = Op::combine(value[t], value[t + s]);
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = value[0];
}

struct Sequential {
  static constexpr ladder::Version version{"fold in half: no bank conflicts"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return max(std::int64_t{1}, ladder::ceil_div(n, kBlock));
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(sequential<Op, T>, blocks<T>(n), kBlock, kBlock * sizeof(float), stream, x, n,
                   out);
  }
};

const ladder::Register<reduction::InPasses<Sequential>, reduction::sum, float> sum;

}  // namespace
