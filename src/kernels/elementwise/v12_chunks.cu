// Idea      warning: each thread owns 32 consecutive elements, as one would split a loop on a CPU
// Vs v01    a thread's elements are neighbours, those of a warp's access are not: it touches 32
//           lines. The L1 catches the loads, which come back for the rest of a line at once; every
//           store goes to the L2 by itself, as 32 sectors of which 4 bytes are new
// Bound by  the L2: 8 times the sectors for the same bytes
// Limits    none
#include "elementwise.hpp"

namespace {

using elementwise::relu;

constexpr int kBlock = 128;
constexpr int kChunk = 32;  // elements per thread

__global__ void __launch_bounds__(kBlock) chunks(relu::Args<float> a) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kChunk;
  float chunk[kChunk];
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    if (first + j < a.n) chunk[j] = a.x[0][first + j];
  }
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    if (first + j < a.n) a.y[first + j] = relu::apply({chunk[j]});
  }
}

struct Chunks {
  static constexpr ladder::Version version{"warning: 32 consecutive elements per thread"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    ladder::launch(chunks, ladder::ceil_div(a.n, kBlock * kChunk), kBlock, 0, stream, a);
  }
};

const ladder::Register<Chunks, relu, float> registration;

}  // namespace
