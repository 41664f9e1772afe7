// Idea      one block per row; its threads' sums of squares are reduced in a tree in shared memory
// Vs v01    256 threads work on a row instead of one, and neighbours read neighbouring elements
// Bound by  latency: the tree has 8 steps with a barrier each, and most threads idle in most of
//           them; x is read twice, from DRAM again where the rows that are being worked on do not
//           fit the caches
// Limits    none
#include "rmsnorm.hpp"

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
__global__ void smem_tree(rmsnorm::Args<T> a) {
  __shared__ float tree[kBlock];
  const T* const x = a.x + std::int64_t{blockIdx.x} * a.cols;
  T* const y = a.y + std::int64_t{blockIdx.x} * a.cols;
  const int t = threadIdx.x;

  float sum_sq = 0;
  for (int c = t; c < a.cols; c += kBlock) {
    const float value = static_cast<float>(x[c]);
    sum_sq += value * value;
  }
  const float scale = rsqrtf(block_sum(sum_sq, tree) / a.cols + a.epsilon);
  for (int c = t; c < a.cols; c += kBlock) {
    y[c] = T(static_cast<float>(x[c]) * scale * static_cast<float>(a.weight[c]));
  }
}

struct SmemTree {
  static constexpr ladder::Version version{"a block per row, a tree in shared memory"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    ladder::launch(smem_tree<T>, a.rows, kBlock, 0, stream, a);
  }
};

const ladder::Register<SmemTree, rmsnorm, float> registration;

}  // namespace
