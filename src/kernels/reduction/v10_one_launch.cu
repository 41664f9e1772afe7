// Idea      one launch: the block that is done last reduces what all of them left
// Vs v09    no second launch, and no idle GPU before it
// Bound by  DRAM bandwidth; at small n by one launch, one trip to DRAM, and three to the L2 cache
// Limits    two launches must not overlap, as they share the counter of the blocks that are done. x
//           starts at a multiple of 16 bytes.
// Tile      16 KiB of x, 256 threads
//
// After CUDA's sample threadFenceReduction. The counter is a variable of the module, zero when that
// is loaded and zero again after every launch: one in the workspace would have to be cleared first,
// by one more operation of the GPU, which is what this version saves.
#include "device/vector.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;

constexpr int kBlock = 256;
constexpr int kLoads = 4;  // of 128 bits per thread, in flight together
constexpr int kTileBytes = 16 * kLoads * kBlock;

template <class T>
constexpr int kTile = kTileBytes / static_cast<int>(sizeof(T));  // elements

/// What this thread finds in its block's part of x, which is every blocks-th tile from number
/// `block` on.
template <class Op, class T>
__device__ Accumulator<T> thread_total(const T* x, std::int64_t n, unsigned block,
                                       unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  using A = Accumulator<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T>);

  A total[Vec::size];  // one chain of additions per element of a vector
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) total[e] = Op::template identity<A>();
  auto take = [&](const Vec& v) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      total[e] = Op::combine(total[e], static_cast<A>(v[e]));
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
    for (int e = 0; e < Vec::size; ++e) {  // with each other first, so that all four are awaited
      const A first = Op::combine(static_cast<A>(v[0][e]), static_cast<A>(v[1][e]));
      const A second = Op::combine(static_cast<A>(v[2][e]), static_cast<A>(v[3][e]));
      total[e] = Op::combine(total[e], Op::combine(first, second));
    }
  }
  if (tile == whole_tiles) {  // what is left falls to the block whose turn it is
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t v = std::int64_t{tile} * (kTile<T> / Vec::size) + i * kBlock + threadIdx.x;
      if (v < vectors) take(Vec::load(x + v * Vec::size));
    }
    const std::int64_t i = vectors * Vec::size + threadIdx.x;
    if (i < n) total[0] = Op::combine(total[0], static_cast<A>(x[i]));
  }

#pragma unroll
  for (int e = 1; e < Vec::size; ++e) total[0] = Op::combine(total[0], total[e]);
  return total[0];
}

/// What the lanes of a warp have, combined, in lane 0.
template <class Op, class A>
__device__ A warp_total(A mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    mine = Op::combine(mine, __shfl_down_sync(0xffffffffu, mine, s));
  }
  return mine;
}

/// What the threads of the block have, combined, in thread 0.
template <class Op, class A>
__device__ A block_total(A mine) {
  __shared__ A of_warp[kBlock / 32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = warp_total<Op>(mine);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  if (warp == 0) {
    mine = warp_total<Op>(lane < kBlock / 32 ? of_warp[lane] : Op::template identity<A>());
  }
  return mine;
}

__device__ unsigned blocks_done = 0;

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) one_launch(reduction::Args<Op, T> a) {
  using A = Accumulator<T>;
  A* const left = static_cast<A*>(a.workspace);  // [gridDim.x]
  A total = block_total<Op>(thread_total<Op>(a.x, a.n, blockIdx.x, gridDim.x));
  if (gridDim.x > 1) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      left[blockIdx.x] = total;
      __threadfence();  // whoever sees the count sees the number
      const unsigned before = atomicInc(&blocks_done, gridDim.x - 1);  // from the limit on to 0
      is_last = before == gridDim.x - 1;
      if (is_last) __threadfence();  // this block, having seen the count, sees the numbers
    }
    __syncthreads();
    if (!is_last) return;
    total = block_total<Op>(thread_total<Op>(left, gridDim.x, 0, 1));
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
  static void launch(const reduction::Args<Op, T>& a, cudaStream_t stream) {
    const std::int64_t blocks = reduction::blocks_for(a.n, kTile<T>);
    ladder::launch(one_launch<Op, T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<OneLaunch, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<OneLaunch, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;

}  // namespace
