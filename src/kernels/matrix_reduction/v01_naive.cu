// Idea      a thread for each sum
// Vs        a loop on the CPU: all sums at the same time
// Bound by  of rows: the sectors of 32 bytes that a warp touches, one per lane and load, of which 4
//           (or 2) bytes are wanted. Of columns, whose loads are coalesced: threads, one per column,
//           with one load in flight each
// Limits    none
#include "matrix_reduction.hpp"

namespace {

constexpr int kBlock = 256;

template <class T>
__global__ void row_sums(matrix_reduction::Args<T> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= a.rows) return;
  float sum = 0;
  for (std::int64_t c = 0; c < a.cols; ++c) sum += static_cast<float>(a.x[row * a.cols + c]);
  a.y[row] = sum;
}

template <class T>
__global__ void col_sums(matrix_reduction::Args<T> a) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (col >= a.cols) return;
  float sum = 0;
  for (std::int64_t r = 0; r < a.rows; ++r) sum += static_cast<float>(a.x[r * a.cols + col]);
  a.y[col] = sum;
}

struct Rows {
  static constexpr ladder::Version version{"a thread per row, strided loads"};

  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    ladder::launch(row_sums<T>, ladder::ceil_div(a.rows, kBlock), kBlock, 0, stream, a);
  }
};

struct Columns {
  static constexpr ladder::Version version{"a thread per column"};

  template <class T>
  static void launch(const matrix_reduction::Args<T>& a, cudaStream_t stream) {
    ladder::launch(col_sums<T>, ladder::ceil_div(a.cols, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Rows, matrix_reduction::row_sum, float, ladder::half, ladder::bfloat16> rows;
const ladder::Register<Columns, matrix_reduction::col_sum, float, ladder::half, ladder::bfloat16>
    columns;

}  // namespace
