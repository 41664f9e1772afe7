// RMSNorm of every row: y[r][c] = x[r][c] / sqrt(mean of x[r]^2 + eps) * weight[c].
// Arithmetic is fp32 for every element type.
//
// It is LayerNorm without a mean and a bias (Zhang and Sennrich, Root Mean Square Layer
// Normalization, 2019), as in Llama and most language models since. What both share is in
// kernels/row_norm; the kernels of both stand in layernorm's versions.
#pragma once

#include "device/kernel.hpp"

struct rmsnorm {
  static constexpr const char* family = "rmsnorm";
  static constexpr const char* op = "";
  static constexpr float kEpsilon = 1e-5f;  // where a problem says nothing else

  static constexpr bool kCentred = false;  // LayerNorm: true

  struct Problem {
    int rows, cols;
    float epsilon = kEpsilon;
  };

  template <class T>
  struct Args {
    const T* x;       // [rows][cols]
    const T* weight;  // [cols]
    T* y;             // [rows][cols]
    int rows, cols;
    float epsilon;
    void* workspace;
  };
};

/// What a block of a transformer ends with: sum = x + residual, rounded to the element type, which
/// the next block adds to, and y = RMSNorm of that sum.
struct rmsnorm_add : rmsnorm {
  static constexpr const char* op = "add";

  template <class T>
  struct Args {
    const T* x;         // [rows][cols]
    const T* residual;  // [rows][cols]
    const T* weight;    // [cols]
    T* y;               // [rows][cols]
    T* sum;             // [rows][cols]
    int rows, cols;
    float epsilon;
  };
};

/// The gradients: dy, that of y, given. With z = x / sqrt(mean of x[r]^2 + eps) and
/// g = dy * weight, the mean taken over row r:
///   dx      = (g - z * mean of g * z) / sqrt(mean of x[r]^2 + eps)
///   dweight = sum of dy * z over the rows
struct rmsnorm_backward : rmsnorm {
  static constexpr const char* op = "backward";

  template <class T>
  struct Args {
    const T* x;       // [rows][cols]
    const T* weight;  // [cols]
    const T* dy;      // [rows][cols]
    T* dx;            // [rows][cols]
    T* dweight;       // [cols]
    int rows, cols;
    float epsilon;
    void* workspace;
  };
};
