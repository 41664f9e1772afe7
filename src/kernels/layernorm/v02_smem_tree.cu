// Idea      one block per row; its threads' sums, of x and then of the squared deviations from the
//           mean, are reduced in a tree in shared memory
// Vs v01    256 threads work on a row instead of one, and neighbours read neighbouring elements
// Bound by  latency: the tree has 8 steps with a barrier each, twice per row, and most threads idle
//           in most of them; x is read three times, from DRAM again where the rows that are being
//           worked on do not fit the caches
// Limits    none
#include "layernorm.hpp"

namespace {

constexpr int kBlock = 256;
static_assert((kBlock & (kBlock - 1)) == 0, "the tree halves the block until one thread is left");

/// The sum over the block's threads; all of them get it.
__device__ float block_sum(float value, float (&tree)[kBlock]) {
  const int t = threadIdx.x;
  tree[t] = value;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  return tree[0];
}

template <class T>
__global__ void smem_tree(layernorm::Args<T> a) {
  __shared__ float sum_tree[kBlock], m2_tree[kBlock];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x;

  float sum = 0;
  for (int c = t; c < a.cols; c += kBlock) sum += static_cast<float>(x[c]);
  const float mean = block_sum(sum, sum_tree) / a.cols;
  float m2 = 0;  // the sum of squared deviations
  for (int c = t; c < a.cols; c += kBlock) {
    const float distance = static_cast<float>(x[c]) - mean;
    m2 += distance * distance;
  }
  const float scale = rsqrtf(block_sum(m2, m2_tree) / a.cols + a.epsilon);
  for (int c = t; c < a.cols; c += kBlock) {
    const float z = (static_cast<float>(x[c]) - mean) * scale;
    y[c] = T(z * static_cast<float>(a.weight[c]) + static_cast<float>(a.bias[c]));
  }
}

struct SmemTree {
  static constexpr ladder::Version version{"a block per row, trees in shared memory"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch(smem_tree<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<SmemTree, layernorm, float> registration;

}  // namespace
