// Idea      one thread per row, three passes over it: the mean, the variance, the results
// Vs        the loops on a CPU: the body of the outer one runs once in each of `rows` threads
// Bound by  latency: there are only as many threads as rows, each of which waits for its next
//           element, and the lanes of a warp read `cols` elements apart, a sector each
// Limits    none
#include "layernorm.hpp"

namespace {

template <class T>
__global__ void naive(layernorm::Args<T> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  float sum = 0;
  for (int c = 0; c < a.cols; ++c) sum += static_cast<float>(x[c]);
  const float mean = sum / a.cols;
  float m2 = 0;  // the sum of squared deviations
  for (int c = 0; c < a.cols; ++c) {
    const float distance = static_cast<float>(x[c]) - mean;
    m2 += distance * distance;
  }
  const float scale = rsqrtf(m2 / a.cols + a.epsilon);
  for (int c = 0; c < a.cols; ++c) {
    const float z = (static_cast<float>(x[c]) - mean) * scale;
    y[c] = T(z * static_cast<float>(a.weight[c]) + static_cast<float>(a.bias[c]));
  }
}

struct Naive {
  static constexpr ladder::Version version{"one thread per row"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = 32;  // small, so that few rows still reach every SM
    ladder::launch(naive<T>, ladder::ceil_div(a.rows, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Naive, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
