// Idea      the rows are split into parts, a block for each part of 32 columns; the parts' sums are
//           summed by a second launch, or a third
// Vs v11    as many blocks as fill the GPU, however few the columns
// Bound by  bytes in flight: a load of 4 (or 2) bytes per thread
// Limits    none
// Tile      32 columns, 256 threads
#include "passes.hpp"

namespace {

constexpr int kWarps = 8;

template <class T>
__global__ void __launch_bounds__(32 * kWarps)
    col_sums(const T* x, std::int64_t rows, std::int64_t cols, float* out) {
  __shared__ float of_warp[kWarps][32];
  const unsigned warp = threadIdx.y, lane = threadIdx.x;
  const std::int64_t col = std::int64_t{blockIdx.x} * 32 + lane;
  const std::int64_t begin = rows * blockIdx.y / gridDim.y;
  const std::int64_t end = rows * (blockIdx.y + 1) / gridDim.y;
  float sum = 0;
  if (col < cols) {
    for (std::int64_t r = begin + warp; r < end; r += kWarps) {
      sum += static_cast<float>(x[r * cols + col]);
    }
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp == 0 && col < cols) {
#pragma unroll
    for (int w = 1; w < kWarps; ++w) sum += of_warp[w][lane];
    out[blockIdx.y * cols + col] = sum;
  }
}

struct Split {
  static constexpr ladder::Version version{"rows split into parts, in passes"};

  template <class T>
  static std::int64_t tiles(std::int64_t cols) {
    return ladder::ceil_div(cols, 32);
  }
  template <class T>
  static void launch_pass(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t parts,
                          float* out, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>(tiles<T>(cols)), static_cast<unsigned>(parts));
    ladder::launch(col_sums<T>, grid, dim3(32, kWarps), 0, stream, x, rows, cols, out);
  }
};

const ladder::Register<matrix_reduction::InPasses<Split>, matrix_reduction::col_sum, float> columns;

}  // namespace
