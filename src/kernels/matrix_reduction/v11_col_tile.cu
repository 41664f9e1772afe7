// Idea      eight warps share the rows of 32 columns, and add up their sums in shared memory
// Vs v01    eight times as many threads for the same columns
// Bound by  threads still, where columns are few: a block per 32 of them
// Limits    none
// Tile      32 columns, 256 threads
#include "matrix_reduction.hpp"

namespace {

constexpr int kWarps = 8;

template <class T>
__global__ void __launch_bounds__(32 * kWarps) col_sums(matrix_reduction::Args<T> a) {
  __shared__ float of_warp[kWarps][32];
  const unsigned warp = threadIdx.y, lane = threadIdx.x;
  const std::int64_t col = std::int64_t{blockIdx.x} * 32 + lane;
  float sum = 0;
  if (col < a.cols) {
    for (std::int64_t r = warp; r < a.rows; r += kWarps) {
      sum += static_cast<float>(a.x[r * a.cols + col]);
    }
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp == 0 && col < a.cols) {
#pragma unroll
    for (int w = 1; w < kWarps; ++w) sum += of_warp[w][lane];
    a.y[col] = sum;
  }
}

struct Tile {
  static constexpr ladder::Version version{"a block per 32 columns"};

  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    ladder::launch(col_sums<T>, ladder::ceil_div(a.cols, 32), dim3(32, kWarps), 0, stream, a);
  }
};

const ladder::Register<Tile, matrix_reduction::col_sum, float> columns;

}  // namespace
