// How a block reduces its tiles of x, as in v09 and v10: every thread reduces its vectors of them,
// shuffles the results of the threads. v12 to v16 and v40 share it, and differ in what comes after;
// v10 takes the shuffles from here. A tile is kLoads 128-bit vectors of each thread.
#pragma once

#include "device/vector.hpp"
#include "reduction.hpp"

namespace reduction {

inline constexpr int kLoads = 4;  // of 128 bits per thread, in flight together

/// Elements.
template <class T, int kBlock>
constexpr int kTile = kBlock* kLoads* ladder::Vec128<T>::size;

/// Which lines a load evicts from the L2: the least recently used, or those that other streaming
/// loads brought.
enum class Loads { ordinary, streaming };

/// Reduces this thread's vectors of the tiles block, block + blocks, block + 2 blocks, …
template <class Op, int kBlock, Loads kHow = Loads::ordinary, class T>
__device__ Accumulator<T> thread_reduce(const T* x, std::int64_t n, unsigned block,
                                        unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  using A = Accumulator<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T, kBlock>);

  A acc[Vec::size];  // accumulators, a chain of operations each
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) acc[e] = Op::template identity<A>();
  auto load = [](const T* from) {
    return kHow == Loads::streaming ? Vec::load_streaming(from) : Vec::load(from);
  };
  auto add = [&](const Vec& v) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) acc[e] = Op::combine(acc[e], static_cast<A>(v[e]));
  };

  unsigned tile = block;
  for (; tile < whole_tiles; tile += blocks) {
    const T* const from = x + std::int64_t{tile} * kTile<T, kBlock> + threadIdx.x * Vec::size;
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = load(from + i * kBlock * Vec::size);
    static_assert(kLoads == 4, "written out for four");
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {  // a tree of the four loads, which waits for all at once
      const A first = Op::combine(static_cast<A>(v[0][e]), static_cast<A>(v[1][e]));
      const A second = Op::combine(static_cast<A>(v[2][e]), static_cast<A>(v[3][e]));
      acc[e] = Op::combine(acc[e], Op::combine(first, second));
    }
  }
  if (tile == whole_tiles) {  // the block whose tile is next takes the remainder
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t v = (std::int64_t{tile} * kLoads + i) * kBlock + threadIdx.x;
      if (v < vectors) add(load(x + v * Vec::size));
    }
    const std::int64_t i = vectors * Vec::size + threadIdx.x;
    if (i < n) acc[0] = Op::combine(acc[0], static_cast<A>(x[i]));
  }

#pragma unroll
  for (int e = 1; e < Vec::size; ++e) acc[0] = Op::combine(acc[0], acc[e]);
  return acc[0];
}

/// Combines the values of a warp's lanes; lane 0 returns the result.
template <class Op, class A>
__device__ A warp_reduce(A mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    mine = Op::combine(mine, __shfl_down_sync(0xffffffffu, mine, s));
  }
  return mine;
}

/// Combines the values of the block's threads, by way of of_warp in shared memory; thread 0 returns
/// the result. Between two calls with the same of_warp there must be a barrier.
template <class Op, class A, int kWarps>
__device__ A block_reduce(A mine, A (&of_warp)[kWarps]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = warp_reduce<Op>(mine);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  if (warp == 0) {
    mine = warp_reduce<Op>(lane < kWarps ? of_warp[lane] : Op::template identity<A>());
  }
  return mine;
}

}  // namespace reduction
