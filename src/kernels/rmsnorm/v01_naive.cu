// Idea      one thread per row, two passes over it: the mean of the squares, the results
// Vs        the loops on a CPU: the body of the outer one runs once in each of `rows` threads
// Bound by  latency: there are only as many threads as rows, each of which waits for its next
//           element, and the lanes of a warp read `cols` elements apart, a sector each
// Limits    none
#include "rmsnorm.hpp"

namespace {

template <class T>
__global__ void naive(rmsnorm::Args<T> a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  const T* const x = a.x + row * a.cols;
  T* const y = a.y + row * a.cols;

  float sum_sq = 0;
  for (int c = 0; c < a.cols; ++c) {
    const float value = static_cast<float>(x[c]);
    sum_sq += value * value;
  }
  const float scale = rsqrtf(sum_sq / a.cols + a.epsilon);
  for (int c = 0; c < a.cols; ++c) {
    y[c] = T(static_cast<float>(x[c]) * scale * static_cast<float>(a.weight[c]));
  }
}

struct Naive {
  static constexpr ladder::Version version{"one thread per row"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    constexpr int kBlock = 32;  // small, so that few rows still reach every SM
    ladder::launch(naive<T>, ladder::ceil_div(a.rows, kBlock), kBlock, 0, stream, a);
  }
};

const ladder::Register<Naive, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
