// Idea      one launch: the block that finishes last reduces the partial results of all
// Vs v09    no second launch, and no idle GPU before it
// Bound by  DRAM bandwidth; at small n by one launch, one trip to DRAM, and three to the L2 cache
// Limits    x starts at a multiple of 16 bytes
// Tile      16 KiB of x, 256 threads
//
// After CUDA's sample threadFenceReduction. The counter is state, zero before the first launch and
// zero again after every launch: one in the workspace would have to be cleared first, by one more
// operation of the GPU, which is what this version saves.
#include "block_reduce.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;

constexpr int kBlock = 256;
constexpr int kLoads = 4;  // of 128 bits per thread, in flight together
constexpr int kTileBytes = 16 * kLoads * kBlock;

template <class T>
constexpr int kTile = kTileBytes / static_cast<int>(sizeof(T));  // elements

/// Reduces this thread's vectors of the tiles block, block + blocks, block + 2 blocks, …
template <class Op, class T>
__device__ Accumulator<T> thread_reduce(const T* x, std::int64_t n, unsigned block,
                                        unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  using A = Accumulator<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T>);

  A acc[Vec::size];  // accumulators, a chain of operations each
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) acc[e] = Op::template identity<A>();
  auto add = [&](const Vec& v) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      acc[e] = Op::combine(acc[e], static_cast<A>(v[e]));
    }
  };

  unsigned tile = block;
  for (; tile < whole_tiles; tile += blocks) {
    const T* const from = x + std::int64_t{tile} * kTile<T> + threadIdx.x * Vec::size;
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = Vec::load(from + i * kBlock * Vec::size);
    static_assert(kLoads == 4, "written out for four");
#pragma unroll
    for (int e = 0; e < Vec::size;
         ++e) {  // a tree of the four loads, which waits for all of them once
      const A first = Op::combine(static_cast<A>(v[0][e]), static_cast<A>(v[1][e]));
      const A second = Op::combine(static_cast<A>(v[2][e]), static_cast<A>(v[3][e]));
      acc[e] = Op::combine(acc[e], Op::combine(first, second));
    }
  }
  if (tile == whole_tiles) {  // the block whose tile is next takes the remainder
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t v = std::int64_t{tile} * (kTile<T> / Vec::size) + i * kBlock + threadIdx.x;
      if (v < vectors) add(Vec::load(x + v * Vec::size));
    }
    const std::int64_t i = vectors * Vec::size + threadIdx.x;
    if (i < n) acc[0] = Op::combine(acc[0], static_cast<A>(x[i]));
  }

#pragma unroll
  for (int e = 1; e < Vec::size; ++e) acc[0] = Op::combine(acc[0], acc[e]);
  return acc[0];
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock)
    one_launch(reduction::Args<Op, T> a, unsigned* blocks_done) {
  using A = Accumulator<T>;
  __shared__ A of_warp[kBlock / 32];
  A* const partials = static_cast<A*>(a.workspace);  // [gridDim.x]
  A mine = thread_reduce<Op>(a.x, a.n, blockIdx.x, gridDim.x);
  A total = reduction::block_reduce<Op>(mine, of_warp);
  if (gridDim.x > 1) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      partials[blockIdx.x] = total;
      __threadfence();  // whoever sees the count sees the partial result
      const unsigned before = atomicInc(blocks_done, gridDim.x - 1);  // from the limit on to 0
      is_last = before == gridDim.x - 1;
      if (is_last) __threadfence();  // this block, having seen the count, sees the partial results
    }
    __syncthreads();
    if (!is_last) return;
    mine = thread_reduce<Op>(partials, gridDim.x, 0, 1);
    total = reduction::block_reduce<Op>(mine, of_warp);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct OneLaunch {
  static constexpr ladder::Version version{"one launch: the last block finishes"};

  template <class Op, class T>
  static std::size_t workspace(const reduction::Args<Op, T>& a) {
    const std::int64_t blocks = reduction::blocks_for(a.n, kTile<T>);
    return blocks > 1 ? static_cast<std::size_t>(blocks) * sizeof(Accumulator<T>) : 0;
  }
  template <class Op, class T>
  static std::size_t state(const reduction::Args<Op, T>& a) {
    return reduction::blocks_for(a.n, kTile<T>) > 1 ? sizeof(unsigned) : 0;
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, void* state, cudaStream_t stream) {
    const std::int64_t blocks = reduction::blocks_for(a.n, kTile<T>);
    ladder::launch(one_launch<Op, T>, blocks, kBlock, 0, stream, a, state);
  }
};

const ladder::Register<OneLaunch, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<OneLaunch, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;

}  // namespace
