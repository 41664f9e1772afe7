// Idea      block size: one vector per thread in blocks of 32, 64, 128, 256, 512 and 1024 threads
// Vs v04    one vector per thread and no loop, so that resident threads are bytes in flight. An SM
//           holds at most 32 blocks at a time: of 32 threads half the threads it could hold, of 64
//           all. Two blocks of 1024 threads fill it: at large problems they are 4 to 5 % slower than
//           blocks of 256 on an H200, up to 1 % faster on an H100
// Bound by  with 32 and 64 threads how fast the GPU starts blocks: one of 32 threads costs as much to
//           start as one of 1024. On an H100, whose DRAM is slower than an H200's, blocks of 64 are
//           bound by both. From 256 threads on DRAM bandwidth
// Limits    none
#include "device/vector.hpp"
#include "elementwise.hpp"

namespace {

using elementwise::relu;

template <int kBlock>
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

template <int kBlock>
struct BlockSize {
  static constexpr ladder::Version version{.idea = "one vector per thread, blocks of this size",
                                           .variant = ladder::Digits<kBlock>::text};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    const std::int64_t vectors = ladder::ceil_div(a.n, ladder::Vec128<float>::size);
    ladder::launch(one_vector<kBlock>, ladder::ceil_div(vectors, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<BlockSize<32>, relu, float> of_32;
const ladder::Register<BlockSize<64>, relu, float> of_64;
const ladder::Register<BlockSize<128>, relu, float> of_128;
const ladder::Register<BlockSize<256>, relu, float> of_256;
const ladder::Register<BlockSize<512>, relu, float> of_512;
const ladder::Register<BlockSize<1024>, relu, float> of_1024;

}  // namespace
