// Idea      the dot product: v10's sum, of products that FMAs make on the way
// Vs v10    two arrays to read instead of one. A multiplication and an addition are one instruction,
//           so an element costs no more than in a sum, and a product is not rounded
// Bound by  DRAM bandwidth, as v10
// Limits    both arrays start at multiples of 16 bytes
// Tile      8 KiB of each array, 256 threads
#include "block_reduce.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;

constexpr int kBlock = 256;
constexpr int kPairs = 2;  // of 128-bit loads per thread, in flight together

template <class T>
constexpr int kTile = kBlock* kPairs* ladder::Vec128<T>::size;  // elements of each array

/// The dot product of this thread's vectors in every gridDim.x-th tile from its block's on.
template <class T>
__device__ Accumulator<T> thread_dot(const T* x, const T* y, std::int64_t n) {
  using Vec = ladder::Vec128<T>;
  using A = Accumulator<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T>);

  A acc[Vec::size] = {};  // accumulators, a chain of FMAs each
  auto add = [&](const Vec& v, const Vec& w) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      acc[e] = reduction::multiply_add(static_cast<A>(v[e]), static_cast<A>(w[e]), acc[e]);
    }
  };

  unsigned tile = blockIdx.x;
  for (; tile < whole_tiles; tile += gridDim.x) {
    const std::int64_t from = std::int64_t{tile} * kTile<T> + threadIdx.x * Vec::size;
    Vec v[kPairs], w[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      v[i] = Vec::load(x + from + i * kBlock * Vec::size);
      w[i] = Vec::load(y + from + i * kBlock * Vec::size);
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) add(v[i], w[i]);
  }
  if (tile == whole_tiles) {  // the block whose tile is next takes the remainder
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::int64_t v = (std::int64_t{tile} * kPairs + i) * kBlock + threadIdx.x;
      if (v < vectors) add(Vec::load(x + v * Vec::size), Vec::load(y + v * Vec::size));
    }
    const std::int64_t i = vectors * Vec::size + threadIdx.x;
    if (i < n) {
      acc[0] = reduction::multiply_add(static_cast<A>(x[i]), static_cast<A>(y[i]), acc[0]);
    }
  }

#pragma unroll
  for (int e = 1; e < Vec::size; ++e) acc[0] += acc[e];
  return acc[0];
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    dot_product(reduction::Args<reduction::dot, T> a, unsigned* blocks_done) {
  using A = Accumulator<T>;
  using Op = reduction::sum;
  __shared__ A of_warp[kBlock / 32];
  A total = reduction::block_reduce<Op>(thread_dot(a.x[0], a.x[1], a.n), of_warp);
  if (gridDim.x > 1) {
    A* const partials = static_cast<A*>(a.workspace);  // [gridDim.x]
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      partials[blockIdx.x] = total;
      __threadfence();  // whoever sees the count sees the partial sum
      const unsigned before = atomicInc(blocks_done, gridDim.x - 1);  // from the limit on to 0
      is_last = before == gridDim.x - 1;
      if (is_last) __threadfence();  // this block, having seen the count, sees the partial sums
    }
    __syncthreads();
    if (!is_last) return;
    const A found = reduction::thread_reduce<Op, kBlock>(partials, gridDim.x, 0, 1);
    total = reduction::block_reduce<Op>(found, of_warp);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct Dot {
  static constexpr ladder::Version version{"products on the way, one launch"};

  template <class T>
  static std::size_t workspace(const reduction::Args<reduction::dot, T>& a) {
    const std::int64_t blocks = reduction::blocks_for(a.n, kTile<T>);
    return blocks > 1 ? static_cast<std::size_t>(blocks) * sizeof(Accumulator<T>) : 0;
  }
  template <class T>
  static std::size_t state(const reduction::Args<reduction::dot, T>& a) {
    return reduction::blocks_for(a.n, kTile<T>) > 1 ? sizeof(unsigned) : 0;
  }
  template <class T>
  static void launch(const reduction::Args<reduction::dot, T>& a, void* state,
                     cudaStream_t stream) {
    ladder::launch(dot_product<T>, reduction::blocks_for(a.n, kTile<T>), kBlock, 0, stream, a,
                   state);
  }
};

const ladder::Register<Dot, reduction::dot, float, ladder::half, ladder::bfloat16, double> dot;

}  // namespace
