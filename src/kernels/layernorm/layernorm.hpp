// LayerNorm of every row: y[r][c] = (x[r][c] - mean_r) / sqrt(var_r + eps) * weight[c] + bias[c],
// with the mean and the variance (the mean of the squared distances from the mean) of row r.
// Arithmetic is fp32 for every element type.
//
// The variance is never E[x^2] - E[x]^2, which would save a pass: in fp32 nothing is left of it
// where the mean is a thousand times the standard deviation.
#pragma once

#include "harness/kernel.hpp"

struct layernorm {
  static constexpr const char* family = "layernorm";
  static constexpr const char* op = "";
  static constexpr float kEpsilon = 1e-5f;

  struct Problem {
    int rows, cols;
  };

  template <class T>
  struct Args {
    const T* x;       // [rows][cols]
    const T* weight;  // [cols]
    const T* bias;    // [cols]
    T* y;             // [rows][cols]
    int rows, cols;
  };
};
