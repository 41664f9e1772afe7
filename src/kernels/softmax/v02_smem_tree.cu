// Idea      one block per row; its threads' maxima and sums meet in a tree in shared memory
// Vs v01    256 threads work on a row instead of one, and neighbours read neighbouring elements
// Bound by  latency: the tree has 8 steps with a barrier each, twice per row, and most threads idle
//           in most of them; x is read three times, from DRAM again where the rows that are being
//           worked on do not fit the caches
// Limits    none
#include "softmax.hpp"

#include <cmath>

namespace {

constexpr int kBlock = 256;
static_assert((kBlock & (kBlock - 1)) == 0, "the tree halves the block until one thread is left");

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// Combines the values of the block's threads; all of them get the result.
template <class Combine>
__device__ float block_reduce(float value, float (&tree)[kBlock], Combine combine) {
  const int t = threadIdx.x;
  tree[t] = value;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (t < half) tree[t] = combine(tree[t], tree[t + half]);
    __syncthreads();
  }
  return tree[0];
}

template <class T>
__global__ void smem_tree(softmax::Args<T> a) {
  __shared__ float max_tree[kBlock], sum_tree[kBlock];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x;

  float max = -INFINITY;
  for (int c = t; c < a.cols; c += kBlock) max = fmaxf(max, static_cast<float>(x[c]));
  max = block_reduce(max, max_tree, Max{});
  float sum = 0;
  for (int c = t; c < a.cols; c += kBlock) sum += expf(static_cast<float>(x[c]) - max);
  const float scale = 1.0f / block_reduce(sum, sum_tree, Sum{});
  for (int c = t; c < a.cols; c += kBlock) {
    y[c] = T(expf(static_cast<float>(x[c]) - max) * scale);
  }
}

struct SmemTree {
  static constexpr ladder::Version version{"a block per row, trees in shared memory"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    ladder::launch(smem_tree<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<SmemTree, softmax, float> registration;

}  // namespace
