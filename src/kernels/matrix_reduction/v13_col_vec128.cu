// Idea      128-bit loads, of four rows at a time: a lane has 4 neighbouring columns, or 8 of 16-bit
//           elements
// Vs v12    64 bytes in flight per thread instead of 4 (or 2), and a quarter (an eighth) of the load
//           instructions
// Bound by  DRAM bandwidth; where the matrix is small by the second launch
// Limits    none. Where the columns are no multiple of the vector, rows start between its
//           boundaries: there each "vector" is one element, as in v12, of which four are in flight.
// Tile      128 columns, or 256 of 16-bit elements (without vectors 32); 256 threads
#include "device/row_length.hpp"
#include "passes.hpp"

namespace {

constexpr int kWarps = 8;
constexpr int kRows = 4;  // of a thread, in flight together

template <class Vec, class T>
__global__ void __launch_bounds__(32 * kWarps)
    col_sums(const T* x, std::int64_t rows, std::int64_t cols, float* out) {
  // Four columns of a lane are a plane, in which lanes are neighbours: stores of 128 bits have no
  // conflicts. Planes lie half a row of banks apart, so that loads in the order of the columns
  // have none either.
  constexpr int kWidth = Vec::size < 4 ? Vec::size : 4;  // columns of a lane in a plane
  constexpr int kPlanes = Vec::size / kWidth;
  constexpr int kPlane = 32 * kWidth + (kPlanes > 1 ? 16 : 0);
  using Four = std::conditional_t<kWidth == 4, ladder::Vec128<float>, ladder::Vec1<float>>;
  alignas(16) __shared__ float of_warp[kWarps][kPlanes * kPlane];
  const unsigned warp = threadIdx.y, lane = threadIdx.x;
  const std::int64_t first = std::int64_t{blockIdx.x} * (32 * Vec::size);  // column of the tile
  const std::int64_t col = first + lane * Vec::size;
  const std::int64_t begin = rows * blockIdx.y / gridDim.y;
  const std::int64_t end = rows * (blockIdx.y + 1) / gridDim.y;

  float sum[Vec::size] = {};
  if (col < cols) {
    std::int64_t r = begin + warp;
    for (; r + (kRows - 1) * kWarps < end; r += kRows * kWarps) {
      Vec v[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) v[i] = Vec::load(x + (r + i * kWarps) * cols + col);
      static_assert(kRows == 4, "written out for four");
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) {  // with each other first, so that all four are awaited
        const float one = static_cast<float>(v[0][e]) + static_cast<float>(v[1][e]);
        const float other = static_cast<float>(v[2][e]) + static_cast<float>(v[3][e]);
        sum[e] += one + other;
      }
    }
    for (; r < end; r += kWarps) {
      const Vec v = Vec::load(x + r * cols + col);
#pragma unroll
      for (int e = 0; e < Vec::size; ++e) sum[e] += static_cast<float>(v[e]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPlanes; ++p) {
    Four four;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) four[e] = sum[p * kWidth + e];
    four.store(&of_warp[warp][p * kPlane + lane * kWidth]);
  }
  __syncthreads();
  const unsigned c = 32 * warp + lane;  // of the tile
  if (c < 32 * Vec::size && first + c < cols) {
    const unsigned plane = c % Vec::size / kWidth;
    const unsigned at = plane * kPlane + c / Vec::size * kWidth + c % kWidth;
    float total = of_warp[0][at];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) total += of_warp[w][at];
    out[blockIdx.y * cols + first + c] = total;
  }
}

struct ColVec128 {
  static constexpr ladder::Version version{"128-bit loads of four rows"};

  template <class T>
  static bool is_whole(std::int64_t cols) {
    return cols % ladder::Vec128<T>::size == 0;
  }
  template <class T>
  static std::int64_t tiles(std::int64_t cols) {
    return ladder::ceil_div(cols, is_whole<T>(cols) ? 32 * ladder::Vec128<T>::size : 32);
  }
  template <class T>
  static void launch_pass(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t parts,
                          float* out, cudaStream_t stream) {
    const auto kernel =
        is_whole<T>(cols) ? col_sums<ladder::Vec128<T>, T> : col_sums<ladder::Vec1<T>, T>;
    const dim3 grid(static_cast<unsigned>(tiles<T>(cols)), static_cast<unsigned>(parts));
    ladder::launch(kernel, grid, dim3(32, kWarps), 0, stream, x, rows, cols, out);
  }
};

const ladder::Register<matrix_reduction::InPasses<ColVec128>, matrix_reduction::col_sum, float,
                       ladder::half, ladder::bfloat16>
    columns;

}  // namespace
