// Idea      128-bit loads, four of them independent of each other, and an accumulator for every
//           element of a vector
// Vs v08    every thread has 64 bytes in flight instead of 8 (or 4), an SM 96 to 128 KiB, with a
//           quarter (an eighth) of the load instructions and independent chains of additions
// Bound by  DRAM bandwidth; at small n by the second launch
// Limits    none: the last n % (4 or 8) elements are loaded one by one. x starts at a multiple of
//           16 bytes, as cudaMalloc returns it.
// Tile      16 KiB of x, 256 threads
#include "device/vector.hpp"
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kLoads = 4;  // of 128 bits per thread, in flight together
constexpr int kTileBytes = 16 * kLoads * kBlock;

template <class T>
constexpr int kTile = kTileBytes / static_cast<int>(sizeof(T));  // elements

/// Reduces this thread's vectors of the tiles block, block + blocks, block + 2 blocks, …
template <class Op, class T>
__device__ float thread_reduce(const T* x, std::int64_t n, unsigned block, unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T>);

  float acc[Vec::size];  // accumulators, a chain of additions each
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) acc[e] = Op::identity();
  auto add = [&](const Vec& v) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      acc[e] = Op::combine(acc[e], static_cast<float>(v[e]));
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
      const float first = Op::combine(static_cast<float>(v[0][e]), static_cast<float>(v[1][e]));
      const float second = Op::combine(static_cast<float>(v[2][e]), static_cast<float>(v[3][e]));
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
    if (i < n) acc[0] = Op::combine(acc[0], static_cast<float>(x[i]));
  }

#pragma unroll
  for (int e = 1; e < Vec::size; ++e) acc[0] = Op::combine(acc[0], acc[e]);
  return acc[0];
}

/// Combines the values of a warp's lanes; lane 0 returns the result.
template <class Op>
__device__ float warp_reduce(float mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    mine = Op::combine(mine, __shfl_down_sync(0xffffffffu, mine, s));
  }
  return mine;
}

/// Combines the values of the block's threads, by way of of_warp in shared memory; thread 0 returns
/// the result.
template <class Op>
__device__ float block_reduce(float mine, float (&of_warp)[kBlock / 32]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = warp_reduce<Op>(mine);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  if (warp == 0) {
    mine = warp_reduce<Op>(lane < kBlock / 32 ? of_warp[lane] : Op::identity());
  }
  return mine;
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) vec128(const T* x, std::int64_t n, float* out) {
  __shared__ float of_warp[kBlock / 32];
  const float mine = thread_reduce<Op>(x, n, blockIdx.x, gridDim.x);
  const float total = block_reduce<Op>(mine, of_warp);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

struct Vec128 {
  static constexpr ladder::Version version{"four 128-bit loads in flight per thread"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return reduction::blocks_for(n, kTile<T>);
  }
  template <class Op, class T>
  static void launch_pass(const T* x, std::int64_t n, float* out, cudaStream_t stream) {
    ladder::launch(vec128<Op, T>, blocks<T>(n), kBlock, 0, stream, x, n, out);
  }
};

const ladder::Register<reduction::InPasses<Vec128>, reduction::sum, float, ladder::bfloat16> sum;

}  // namespace
