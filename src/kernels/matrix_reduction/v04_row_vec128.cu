// Idea      four 128-bit loads in flight per thread; a row goes to a warp up to 2 KiB, to 256
//           threads up to 64 KiB, and to 1024 beyond
// Vs v03    64 bytes in flight per thread instead of 4 (or 2), and no idle threads where rows are
//           short
// Bound by  DRAM bandwidth
// Limits    none. Where a row does not start at a multiple of 16 bytes, the elements before the
//           first are loaded one by one, as are those behind the last vector.
// Tile      a row per 32, 256 or 1024 threads
#include "device/vector.hpp"
#include "matrix_reduction.hpp"

namespace {

constexpr int kLoads = 4;  // of 128 bits per thread, in flight together

__device__ float warp_sum(float mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) mine += __shfl_down_sync(0xffffffffu, mine, s);
  return mine;
}

/// The sum of the elements that thread number t of kThreads has in a row.
template <int kThreads, class T>
__device__ float thread_sum(const T* row, std::int64_t cols, unsigned t) {
  using Vec = ladder::Vec128<T>;
  constexpr std::int64_t kStep = kThreads * Vec::size;
  const auto beyond = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16);  // bytes
  constexpr int kElement = sizeof(T);
  const std::int64_t before = min(cols, std::int64_t{(16 - beyond) % 16 / kElement});
  const std::int64_t end = cols - (cols - before) % Vec::size;  // of the vectors

  float sum[Vec::size] = {};  // one chain of additions per element of a vector
  if (t < before) sum[0] = static_cast<float>(row[t]);
  if (t < cols - end) sum[0] += static_cast<float>(row[end + t]);

  std::int64_t c = before + t * Vec::size;
  for (; c + (kLoads - 1) * kStep < end; c += kLoads * kStep) {
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = Vec::load(row + c + i * kStep);
    static_assert(kLoads == 4, "written out for four");
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {  // with each other first, so that all four are awaited
      const float first = static_cast<float>(v[0][e]) + static_cast<float>(v[1][e]);
      const float second = static_cast<float>(v[2][e]) + static_cast<float>(v[3][e]);
      sum[e] += first + second;
    }
  }
#pragma unroll
  for (int i = 0; i < kLoads - 1; ++i) {
    if (c + i * kStep < end) {
      const Vec v = Vec::load(row + c + i * kStep);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum[e] += static_cast<float>(v[e]);
    }
  }
#pragma unroll
  for (int e = 1; e < Vec::size; ++e) sum[0] += sum[e];
  return sum[0];
}

/// Rows of kThreads threads each: a warp, which shares its block with others, or a block.
template <int kThreads, class T>
__global__ void __launch_bounds__(kThreads < 256 ? 256 : kThreads)
    row_sums(matrix_reduction::Args<T> a) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if constexpr (kThreads == 32) {
    const std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / 32) + warp;
    if (row >= a.rows) return;
    const float sum = warp_sum(thread_sum<kThreads>(a.x + row * a.cols, a.cols, lane));
    if (lane == 0) a.y[row] = sum;
  } else {
    __shared__ float of_warp[kThreads / 32];
    const std::int64_t row = blockIdx.x;
    float sum = warp_sum(thread_sum<kThreads>(a.x + row * a.cols, a.cols, threadIdx.x));
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      sum = warp_sum(lane < kThreads / 32 ? of_warp[lane] : 0.0f);
      if (lane == 0) a.y[row] = sum;
    }
  }
}

struct RowVec128 {
  static constexpr ladder::Version version{"four 128-bit loads, threads by the length of a row"};

  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    const std::int64_t bytes = a.cols * static_cast<std::int64_t>(sizeof(T));
    const auto rows = static_cast<unsigned>(a.rows);
    if (bytes <= 2 << 10) {
      ladder::launch(row_sums<32, T>, ladder::ceil_div(rows, 8), 256, 0, stream, a);
    } else if (bytes <= 64 << 10) {
      ladder::launch(row_sums<256, T>, rows, 256, 0, stream, a);
    } else {
      ladder::launch(row_sums<1024, T>, rows, 1024, 0, stream, a);
    }
  }
};

const ladder::Register<RowVec128, matrix_reduction::row_sum, float, ladder::half, ladder::bfloat16>
    rows;

}  // namespace
