// Softmax of every row of a matrix, its relatives, and their gradients. Arithmetic is fp32 for
// every element type.
//
// Without the maximum, exp overflows above 88; with it no exponent is above 0 and the sum is at
// least 1. An element of -inf gives 0 (its logarithm -inf); a row of nothing else gives NaNs
// (0 / 0), as in PyTorch.
#pragma once

#include "device/kernel.hpp"

/// y[r][c] = exp(x[r][c] - max_r) / sum_r, where max_r is the row's largest element and sum_r the
/// sum of the row's exp(x[r][c] - max_r).
struct softmax {
  static constexpr const char* family = "softmax";
  static constexpr const char* op = "";
  static constexpr int inputs = 1;

  struct Problem {
    int rows, cols;
  };

  template <class T>
  struct Args {
    const T* x;  // [rows][cols]
    T* y;        // [rows][cols]
    int rows, cols;
    void* workspace;
  };
};

/// Its logarithm: y[r][c] = x[r][c] - max_r - log(sum_r).
struct log_softmax : softmax {
  static constexpr const char* op = "log";
};

/// As in attention that does not look ahead: of row r only the first visible() columns count, one
/// more in each row, all of them in the last. The results of the others are 0, whatever x has
/// there.
struct causal_softmax : softmax {
  static constexpr const char* op = "causal";

  __host__ __device__ static int visible(std::int64_t row, int rows, int cols) {
    const std::int64_t count = row + 1 + cols - rows;
    return count > 0 ? static_cast<int>(count) : 0;
  }
};

/// What the gradients share: from the results y of the forward pass, and the loss's derivatives dy
/// by them, the derivatives dx by the inputs.
struct softmax_gradient {
  static constexpr const char* family = "softmax";
  static constexpr int inputs = 2;
  using Problem = softmax::Problem;

  template <class T>
  struct Args {
    const T *y, *dy;  // [rows][cols]
    T* dx;            // [rows][cols]
    int rows, cols;
    void* workspace;
  };
};

/// dx[r][c] = y[r][c] (dy[r][c] - sum_r), where sum_r is the sum of the row's y[r][c] dy[r][c].
struct softmax_backward : softmax_gradient {
  static constexpr const char* op = "backward";
};

/// dx[r][c] = dy[r][c] - exp(y[r][c]) sum_r, where sum_r is the sum of the row's dy[r][c].
struct log_softmax_backward : softmax_gradient {
  static constexpr const char* op = "log_backward";
};
