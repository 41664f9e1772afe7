// The first backward kernels of LayerNorm and RMSNorm: a thread per row makes dx, a thread per
// column dweight and dbias. Norm is layernorm_backward or rmsnorm_backward.
#pragma once

#include "device/kernel.hpp"

namespace layernorm_rows {

/// What both need of a row.
struct RowFacts {
  float mean, scale;  // 0 for RMSNorm; 1 / sqrt(variance + eps)
};

template <class Norm, class T>
__global__ void row_per_thread(typename Norm::template Args<T> a, RowFacts* facts) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const T* const x = a.x + row * a.cols;
  const T* const dy = a.dy + row * a.cols;
  T* const dx = a.dx + row * a.cols;

  float mean = 0, squares = 0;
  if constexpr (Norm::kCentred) {
    for (int c = 0; c < a.cols; ++c) mean += static_cast<float>(x[c]);
    mean /= a.cols;
  }
  for (int c = 0; c < a.cols; ++c) {
    const float distance = static_cast<float>(x[c]) - mean;
    squares += distance * distance;
  }
  const float scale = rsqrtf(squares / a.cols + Norm::kEpsilon);

  auto z = [&](int c) { return (static_cast<float>(x[c]) - mean) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float of_g = 0, of_gz = 0;
  for (int c = 0; c < a.cols; ++c) {
    const float of_c = g(c);
    if constexpr (Norm::kCentred) of_g += of_c;
    of_gz += of_c * z(c);
  }
  of_g /= a.cols;
  of_gz /= a.cols;
  for (int c = 0; c < a.cols; ++c) dx[c] = T((g(c) - of_g - z(c) * of_gz) * scale);
  facts[row] = {mean, scale};
}

template <class Norm, class T>
__global__ void column_per_thread(typename Norm::template Args<T> a, const RowFacts* facts) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  float dweight = 0, dbias = 0;
  for (int row = 0; row < a.rows; ++row) {
    const float mean = facts[row].mean;
    const float scale = facts[row].scale;
    const float dy = static_cast<float>(a.dy[std::int64_t{row} * a.cols + c]);
    const float x = static_cast<float>(a.x[std::int64_t{row} * a.cols + c]);
    dweight += dy * ((x - mean) * scale);
    dbias += dy;
  }
  a.dweight[c] = T(dweight);
  if constexpr (Norm::kCentred) a.dbias[c] = T(dbias);
}

}  // namespace layernorm_rows
