// Idea      one thread per row makes dx, and leaves its mean and scale; in a second launch one
//           thread per column makes dweight
// Vs        the loops on a CPU: dweight is a sum over the rows, dx needs sums over the columns, so
//           that x and dy are walked over in both directions
// Bound by  latency: there are only as many threads as rows, whose lanes read `cols` elements
//           apart, and then as columns
// Limits    none
#include "rmsnorm.hpp"

namespace {

/// scales: 1 / sqrt(mean of x^2 + eps) of every row, which the second launch needs
template <class T>
__global__ void row_per_thread(rmsnorm_backward::Args<T> a, float* scales) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const T* const x = a.x + row * a.cols;
  const T* const dy = a.dy + row * a.cols;
  T* const dx = a.dx + row * a.cols;

  float sum_sq = 0;
  for (int c = 0; c < a.cols; ++c) {
    const float value = static_cast<float>(x[c]);
    sum_sq += value * value;
  }
  const float scale = rsqrtf(sum_sq / a.cols + a.epsilon);

  auto z = [&](int c) { return static_cast<float>(x[c]) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float mean_gz = 0;
  for (int c = 0; c < a.cols; ++c) mean_gz += g(c) * z(c);
  mean_gz /= a.cols;
  for (int c = 0; c < a.cols; ++c) dx[c] = T((g(c) - z(c) * mean_gz) * scale);
  scales[row] = scale;
}

template <class T>
__global__ void column_per_thread(rmsnorm_backward::Args<T> a, const float* scales) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  float dweight = 0;
  for (int row = 0; row < a.rows; ++row) {
    const float scale = scales[row];
    const float dy = static_cast<float>(a.dy[std::int64_t{row} * a.cols + c]);
    const float x = static_cast<float>(a.x[std::int64_t{row} * a.cols + c]);
    dweight += dy * (x * scale);
  }
  a.dweight[c] = T(dweight);
}

struct NaiveBackward {
  static constexpr ladder::Version version{"one thread per row, then one per column"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return static_cast<std::size_t>(a.rows) * sizeof(float);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = 32;  // small, so that few rows still reach every SM
    auto* const scales = static_cast<float*>(a.workspace);
    ladder::launch(row_per_thread<T>, ladder::ceil_div(a.rows, kBlock), kBlock, 0, stream, a,
                   scales);
    ladder::launch(column_per_thread<T>, ladder::ceil_div(a.cols, kBlock), kBlock, 0, stream, a,
                   scales);
  }
};

const ladder::Register<NaiveBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
