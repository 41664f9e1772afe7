// Transpose: out[c][r] = in[r][c]. Both matrices are row-major and dense; bits are moved, and
// nothing is computed.
//
// In the kernels the sides of a tile are counted in elements, V is the number of elements in a
// 128-bit vector.
#pragma once

#include "device/kernel.hpp"

struct transpose {
  static constexpr const char* family = "transpose";
  static constexpr const char* op = "";

  struct Problem {
    int rows, cols;  // of the input
  };

  template <class T>
  struct Args {
    const T* in;  // [rows][cols]
    T* out;       // [cols][rows]
    int rows, cols;
  };
};
