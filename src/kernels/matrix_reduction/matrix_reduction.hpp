// Sums of the rows or of the columns of a row-major matrix.
//
//   row_sum   y[r] = x[r][0] + … + x[r][cols-1]
//   col_sum   y[c] = x[0][c] + … + x[rows-1][c]
//
// Arithmetic and results are fp32 for every element type. The order of the additions is free.
#pragma once

#include "device/kernel.hpp"

namespace matrix_reduction {

struct Problem {
  std::int64_t rows, cols;
};

template <class T>
struct Args {
  const T* x;  // [rows][cols]
  float* y;    // [rows] of row_sum, [cols] of col_sum
  std::int64_t rows, cols;
  void* workspace;
};

struct Operation {
  static constexpr const char* family = "matrix_reduction";
  using Problem = matrix_reduction::Problem;
  template <class T>
  using Args = matrix_reduction::Args<T>;
};

/// Its versions are v00 to v04.
struct row_sum : Operation {
  static constexpr const char* op = "row_sum";
};

/// Its versions are v01 and v11 up.
struct col_sum : Operation {
  static constexpr const char* op = "col_sum";
};

}  // namespace matrix_reduction
