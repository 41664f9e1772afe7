// Idea      one thread per row makes dx, and leaves its mean and scale; in a second launch one
//           thread per column makes dweight and dbias
// Vs        the loops on a CPU: dweight and dbias are sums over the rows, dx needs sums over the
//           columns, so that x and dy are walked over in both directions
// Bound by  latency: there are only as many threads as rows, whose lanes read `cols` elements
//           apart, and then as columns
// Limits    none
#include "layernorm.hpp"

namespace {

/// What the second launch needs of a row: 1 / sqrt(variance + eps) is its scale.
struct RowFacts {
  float mean, scale;
};

template <class T>
__global__ void row_per_thread(layernorm_backward::Args<T> a, RowFacts* facts) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const T* const x = a.x + row * a.cols;
  const T* const dy = a.dy + row * a.cols;
  T* const dx = a.dx + row * a.cols;

  float mean = 0, m2 = 0;  // the sum of squared deviations
  for (int c = 0; c < a.cols; ++c) mean += static_cast<float>(x[c]);
  mean /= a.cols;
  for (int c = 0; c < a.cols; ++c) {
    const float distance = static_cast<float>(x[c]) - mean;
    m2 += distance * distance;
  }
  const float scale = rsqrtf(m2 / a.cols + a.epsilon);

  auto z = [&](int c) { return (static_cast<float>(x[c]) - mean) * scale; };
  auto g = [&](int c) { return static_cast<float>(dy[c]) * static_cast<float>(a.weight[c]); };
  float mean_g = 0, mean_gz = 0;
  for (int c = 0; c < a.cols; ++c) {
    const float g_c = g(c);
    mean_g += g_c;
    mean_gz += g_c * z(c);
  }
  mean_g /= a.cols;
  mean_gz /= a.cols;
  for (int c = 0; c < a.cols; ++c) dx[c] = T((g(c) - mean_g - z(c) * mean_gz) * scale);
  facts[row] = {mean, scale};
}

template <class T>
__global__ void column_per_thread(layernorm_backward::Args<T> a, const RowFacts* facts) {
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
  a.dbias[c] = T(dbias);
}

struct NaiveBackward {
  static constexpr ladder::Version version{"one thread per row, then one per column"};

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return static_cast<std::size_t>(a.rows) * sizeof(RowFacts);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = 32;  // small, so that few rows still reach every SM
    auto* const facts = static_cast<RowFacts*>(a.workspace);
    ladder::launch(row_per_thread<T>, ladder::ceil_div(a.rows, kBlock), kBlock, 0, stream, a,
                   facts);
    ladder::launch(column_per_thread<T>, ladder::ceil_div(a.cols, kBlock), kBlock, 0, stream, a,
                   facts);
  }
};

const ladder::Register<NaiveBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
