// Idea      block size: 32 threads
// Vs v04    one vector per thread and no loop, so that resident threads are bytes in flight; an SM
//           holds at most 32 blocks at a time, which is half the threads it could hold
// Bound by  how fast the GPU starts blocks: one of 32 threads costs as much to start as one of 1024
// Limits    none
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

using elementwise::relu;

constexpr int kBlock = 32;

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

struct Block32 {
  static constexpr ladder::Version version{"one vector per thread, blocks of 32 threads"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<float>::size);
    ladder::launch(one_vector, ladder::ceil_div(vectors, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Block32, relu, float> registration;

}  // namespace
