// LayerNorm of every row: y[r][c] = (x[r][c] - mean_r) / sqrt(var_r + eps) * weight[c] + bias[c],
// with the mean and the variance (the mean of the squared deviations from the mean) of row r.
// Arithmetic is fp32 for every element type.
//
// The variance is never E[x^2] - E[x]^2, which would save a pass: in fp32 nothing is left of it
// where the mean is a thousand times the standard deviation.
#pragma once

#include "device/kernel.hpp"

struct layernorm {
  static constexpr const char* family = "layernorm";
  static constexpr const char* op = "";
  static constexpr float kEpsilon = 1e-5f;  // where a problem says nothing else

  static constexpr bool kCentred = true;  // about the mean, and with a bias; RMSNorm: false

  struct Problem {
    int rows, cols;
    float epsilon = kEpsilon;
  };

  template <class T>
  struct Args {
    const T* x;       // [rows][cols]
    const T* weight;  // [cols]
    const T* bias;    // [cols]
    T* y;             // [rows][cols]
    int rows, cols;
    float epsilon;
    void* workspace;
  };
};

/// What a block of a transformer ends with: sum = x + residual, rounded to the element type, which
/// the next block adds to, and y = LayerNorm of that sum.
struct layernorm_add : layernorm {
  static constexpr const char* op = "add";

  template <class T>
  struct Args {
    const T* x;         // [rows][cols]
    const T* residual;  // [rows][cols]
    const T* weight;    // [cols]
    const T* bias;      // [cols]
    T* y;               // [rows][cols]
    T* sum;             // [rows][cols]
    int rows, cols;
    float epsilon;
  };
};

/// The gradients: dy, that of y, given. With z = (x - mean_r) / sqrt(var_r + eps) and
/// g = dy * weight, the means taken over row r:
///   dx      = (g - mean of g - z * mean of g * z) / sqrt(var_r + eps)
///   dweight = sum of dy * z over the rows
///   dbias   = sum of dy over the rows
/// Mean and variance are computed again: x has to be read for z anyway.
struct layernorm_backward : layernorm {
  static constexpr const char* op = "backward";

  template <class T>
  struct Args {
    const T* x;       // [rows][cols]
    const T* weight;  // [cols]
    const T* dy;      // [rows][cols]
    T* dx;            // [rows][cols]
    T* dweight;       // [cols]
    T* dbias;         // [cols]
    int rows, cols;
    float epsilon;
    void* workspace;
  };
};
