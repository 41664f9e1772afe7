// Idea      one thread per element, a warp along a row of the input
// Vs        two nested loops on a CPU: they became the grid
// Bound by  stores: a warp loads 32 neighbours, but the places where it stores them are a row of
//           the output apart. Each store touches 32 memory sectors of 32 bytes, of which it writes
//           4 (of 16-bit types 2), where 4 (2) sectors would hold all of it
// Limits    rows <= 524280
#include "transpose.hpp"

namespace {

constexpr int kCols = 32, kRows = 8;  // of a block

template <class T>
__global__ void __launch_bounds__(kCols* kRows) naive(transpose::Args<T> a) {
  const int row = blockIdx.y * kRows + threadIdx.y;
  const int col = blockIdx.x * kCols + threadIdx.x;
  if (row >= a.rows || col >= a.cols) return;
  a.out[std::int64_t{col} * a.rows + row] = a.in[std::int64_t{row} * a.cols + col];
}

struct Naive {
  static constexpr ladder::Version version{"one thread per element, strided stores"};

  template <class T>
  static void launch(const transpose::Args<T>& a, cudaStream_t stream) {
    const dim3 grid(ladder::ceil_div(a.cols, kCols), ladder::ceil_div(a.rows, kRows));
    ladder::launch(naive<T>, grid, dim3(kCols, kRows), 0, stream, a);
  }
  static ladder::Support supports(const transpose::Problem& p) {
    return p.rows <= kRows * 65535 ? ladder::supported()
                                   : ladder::unsupported("more than 524280 rows");
  }
};

const ladder::Register<Naive, transpose, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
