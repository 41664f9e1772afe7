// RMSNorm of every row: y[r][c] = x[r][c] / sqrt(mean of x[r]^2 + eps) * weight[c].
// Arithmetic is fp32 for every element type.
//
// It is LayerNorm without a mean and a bias (Zhang and Sennrich, Root Mean Square Layer
// Normalization, 2019), as in Llama and most language models since.
#pragma once

#include "harness/kernel.hpp"

struct rmsnorm {
  static constexpr const char* family = "rmsnorm";
  static constexpr const char* op = "";
  static constexpr float kEpsilon = 1e-5f;

  struct Problem {
    int rows, cols;
  };

  template <class T>
  struct Args {
    const T* x;       // [rows][cols]
    const T* weight;  // [cols]
    T* y;             // [rows][cols]
    int rows, cols;
  };
};
