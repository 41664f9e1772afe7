// Idea      a block for each row: eight warps share it, and add up their sums in shared memory
// Vs v02    eight times as many threads for the same rows: few long rows fill the GPU. Short ones
//           leave most of a block's threads with nothing
// Bound by  bytes in flight, a load of 4 (or 2) bytes per thread
// Limits    none
// Tile      1 row, 256 threads
#include "matrix_reduction.hpp"

namespace {

constexpr int kBlock = 256;

__device__ float warp_sum(float mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) mine += __shfl_down_sync(0xffffffffu, mine, s);
  return mine;
}

template <class T>
__global__ void __launch_bounds__(kBlock) row_sums(matrix_reduction::Args<T> a) {
  __shared__ float of_warp[kBlock / 32];
  const std::int64_t row = blockIdx.x;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const T* const x = a.x + row * a.cols;
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < a.cols; c += kBlock) sum += static_cast<float>(x[c]);
  sum = warp_sum(sum);
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < kBlock / 32 ? of_warp[lane] : 0.0f);
    if (lane == 0) a.y[row] = sum;
  }
}

struct Block {
  static constexpr ladder::Version version{"a block per row"};

  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    ladder::launch(row_sums<T>, static_cast<unsigned>(a.rows), kBlock, 0, stream, a);
  }
};

const ladder::Register<Block, matrix_reduction::row_sum, float> rows;

}  // namespace
