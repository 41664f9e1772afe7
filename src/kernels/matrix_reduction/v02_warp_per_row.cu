// Idea      a warp for each row: its lanes load neighbours, and add up their sums by shuffles
// Vs v01    coalesced: a load touches 4 sectors of fp32 instead of 32, or 2 of 16-bit elements
// Bound by  DRAM bandwidth where rows are many; else bytes in flight, a load of 4 (or 2) bytes per
//           thread
// Limits    none
// Tile      8 rows, 256 threads
#include "matrix_reduction.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kRows = kBlock / 32;  // of a block

template <class T>
__global__ void __launch_bounds__(kBlock) row_sums(matrix_reduction::Args<T> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  if (row >= a.rows) return;
  const T* const x = a.x + row * a.cols;
  float sum = 0;
  for (std::int64_t c = lane; c < a.cols; c += 32) sum += static_cast<float>(x[c]);
#pragma unroll
  for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffffu, sum, s);
  if (lane == 0) a.y[row] = sum;
}

struct Warp {
  static constexpr ladder::Version version{"a warp per row, coalesced"};

  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    ladder::launch(row_sums<T>, ladder::ceil_div(a.rows, kRows), kBlock, 0, stream, a);
  }
};

const ladder::Register<Warp, matrix_reduction::row_sum, float> rows;

}  // namespace
