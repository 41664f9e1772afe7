// Softmax of every row: y[r][c] = exp(x[r][c] - max_r) / sum_r, where max_r is the row's largest
// element and sum_r the sum of the row's exp(x[r][c] - max_r). Arithmetic is fp32 for every element
// type.
//
// Without the maximum, exp overflows above 88; with it no exponent is above 0 and the sum is at
// least 1. An element of -inf gives 0; a row of nothing else gives NaNs (0 / 0), as in PyTorch.
#pragma once

#include "harness/kernel.hpp"

struct softmax {
  static constexpr const char* family = "softmax";
  static constexpr const char* op = "";

  struct Problem {
    int rows, cols;
  };

  template <class T>
  struct Args {
    const T* x;  // [rows][cols]
    T* y;        // [rows][cols]
    int rows, cols;
  };
};
