// Idea      the block's elements pass through shared memory: a thread still owns 32 consecutive
//           ones, and the strided accesses are those of shared memory, where only banks count
// Vs v12    all loads and stores of global memory are coalesced. Rows of 33 words put the elements
//           that a warp touches at once, 33 words apart, into 32 different banks
// Bound by  DRAM bandwidth, and the wait of a whole block at each barrier. An elementwise operation
//           doesn't care who owns what, so v05 needs none of this; a kernel that must work along
//           its chunk (a scan, a decoder) does
// Limits    none
// Tile      128 rows of 32 elements; 16.5 KiB of shared memory
#include "elementwise.hpp"

namespace {

using elementwise::relu;

constexpr int kBlock = 128;
constexpr int kChunk = 32;  // elements per thread
static_assert(kChunk % 32 == 0,
              "a warp loads one row, so that its stores to the tile don't conflict");

__global__ void __launch_bounds__(kBlock) staged(relu::Args<float> a) {
  __shared__ float tile[kBlock][kChunk + 1];
  const std::int64_t first = std::int64_t{blockIdx.x} * (kBlock * kChunk);  // of the block
  const int t = threadIdx.x;

  float loaded[kChunk];
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    const std::int64_t i = first + j * kBlock + t;
    loaded[j] = i < a.n ? a.x[0][i] : 0.0f;
  }
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    const int e = j * kBlock + t;
    tile[e / kChunk][e % kChunk] = loaded[j];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kChunk; ++j) tile[t][j] = relu::apply({tile[t][j]});  // the chunk of thread t
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kChunk; ++j) {
    const int e = j * kBlock + t;
    if (first + e < a.n) a.y[first + e] = tile[e / kChunk][e % kChunk];
  }
}

struct Staged {
  static constexpr ladder::Version version{"the same chunks, staged through shared memory"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    ladder::launch(staged, ladder::ceil_div(a.n, kBlock * kChunk), kBlock, 0, stream, a);
  }
};

const ladder::Register<Staged, relu, float> registration;

}  // namespace
