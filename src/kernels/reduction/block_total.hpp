// What a block makes of its tiles of x, as in v10. v12 to v16 share it: all but v16 differ in how
// the numbers of the blocks come together. A tile is kLoads 128-bit vectors of each thread.
#pragma once

#include "device/vector.hpp"
#include "reduction.hpp"

namespace reduction {

inline constexpr int kLoads = 4;  // of 128 bits per thread, in flight together

/// Elements.
template <class T, int kBlock>
constexpr int kTile = kBlock* kLoads* ladder::Vec128<T>::size;

/// Which lines of the L2 a load takes the place of: the least recently used, or those that other
/// streaming loads brought.
enum class Loads { ordinary, streaming };

/// What this thread finds in its block's part of x, which is every blocks-th tile from number
/// `block` on.
template <class Op, int kBlock, Loads kHow = Loads::ordinary, class T>
__device__ Accumulator<T> thread_total(const T* x, std::int64_t n, unsigned block,
                                       unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  using A = Accumulator<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T, kBlock>);

  A total[Vec::size];  // one chain of additions per element of a vector
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) total[e] = Op::template identity<A>();
  auto load = [](const T* from) {
    return kHow == Loads::streaming ? Vec::load_streaming(from) : Vec::load(from);
  };
  auto take = [&](const Vec& v) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) total[e] = Op::combine(total[e], static_cast<A>(v[e]));
  };

  unsigned tile = block;
  for (; tile < whole_tiles; tile += blocks) {
    const T* const from = x + std::int64_t{tile} * kTile<T, kBlock> + threadIdx.x * Vec::size;
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = load(from + i * kBlock * Vec::size);
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
      const std::int64_t v = (std::int64_t{tile} * kLoads + i) * kBlock + threadIdx.x;
      if (v < vectors) take(load(x + v * Vec::size));
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

/// What the threads of the block have, combined, in thread 0. Between two calls there must be a
/// barrier.
template <class Op, int kBlock, class A>
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

}  // namespace reduction
