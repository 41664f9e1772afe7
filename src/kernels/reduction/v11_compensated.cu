// Idea      a compensated sum: a second accumulator adds up the rounding errors of the first one's
//           additions (Knuth's two-sum; Ogita, Rump and Oishi, Accurate Sum and Dot Product, 2005;
//           the idea is Kahan's, 1965), and is added to the sum in the end
// Vs v10    seven operations per element instead of one, most of which hide behind the loads: on an
//           H200 it takes as long at 2^30, 3 to 5 % longer from 2^24 to 2^28. The sum is as good as
//           if it were made in twice the precision and then rounded, also where large numbers
//           cancel
// Bound by  DRAM bandwidth, as v10
// Limits    x starts at a multiple of 16 bytes. A compiler that reorders additions, as nvcc does not,
//           would make the errors zeros.
// Tile      16 KiB of x, 256 threads
#include "device/vector.hpp"
#include "passes.hpp"

namespace {

constexpr int kBlock = 256;
constexpr int kLoads = 4;  // of 128 bits per thread, in flight together
constexpr int kTileBytes = 16 * kLoads * kBlock;

template <class T>
constexpr int kTile = kTileBytes / static_cast<int>(sizeof(T));  // elements

/// A sum in two parts. Aligned, to be loaded and stored as one.
struct alignas(8) Total {
  float sum, error;  // rounded; what is missing in it, to first order

  __device__ void add(float x) {
    const float sum_before = sum;
    sum += x;
    const float added = sum - sum_before;
    error += (sum_before - (sum - added)) + (x - added);  // both exact, whichever is larger
  }
  __device__ void add(const Total& other) {
    add(other.sum);
    error += other.error;
  }
};

/// Adds up this thread's vectors of the tiles block, block + blocks, block + 2 blocks, …
template <class T>
__device__ Total thread_reduce(const T* x, std::int64_t n, unsigned block, unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T>);

  Total acc[Vec::size] = {};  // accumulators, a chain of additions each
  auto add = [&](const Vec& v) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) acc[e].add(static_cast<float>(v[e]));
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
      Total first{static_cast<float>(v[0][e]), 0}, second{static_cast<float>(v[2][e]), 0};
      first.add(static_cast<float>(v[1][e]));
      second.add(static_cast<float>(v[3][e]));
      first.add(second);
      acc[e].add(first);
    }
  }
  if (tile == whole_tiles) {  // the block whose tile is next takes the remainder
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t v = std::int64_t{tile} * (kTile<T> / Vec::size) + i * kBlock + threadIdx.x;
      if (v < vectors) add(Vec::load(x + v * Vec::size));
    }
    const std::int64_t i = vectors * Vec::size + threadIdx.x;
    if (i < n) acc[0].add(static_cast<float>(x[i]));
  }

#pragma unroll
  for (int e = 1; e < Vec::size; ++e) acc[0].add(acc[e]);
  return acc[0];
}

/// Adds up the values of a warp's lanes; lane 0 returns the sum.
__device__ Total warp_reduce(Total mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    mine.add(Total{__shfl_down_sync(0xffffffffu, mine.sum, s),
                   __shfl_down_sync(0xffffffffu, mine.error, s)});
  }
  return mine;
}

/// Adds up the values of the block's threads, by way of of_warp in shared memory; thread 0 returns
/// the sum. Between two calls with the same of_warp there must be a barrier.
__device__ Total block_reduce(Total mine, Total (&of_warp)[kBlock / 32]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = warp_reduce(mine);
  if (lane == 0) of_warp[warp] = mine;
  __syncthreads();
  if (warp == 0) {
    mine = {};
    if (lane < kBlock / 32) mine = of_warp[lane];
    mine = warp_reduce(mine);
    if (fabsf(mine.sum) == INFINITY) mine.error = 0;  // not inf - inf
  }
  return mine;
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    compensated(reduction::Args<reduction::sum, T> a, unsigned* blocks_done) {
  __shared__ Total of_warp[kBlock / 32];
  auto* const partials = static_cast<Total*>(a.workspace);  // [gridDim.x]
  Total total = block_reduce(thread_reduce(a.x, a.n, blockIdx.x, gridDim.x), of_warp);
  if (gridDim.x > 1) {
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
    const auto* const numbers = static_cast<const float*>(a.workspace);  // sums and errors
    total = block_reduce(thread_reduce(numbers, 2 * gridDim.x, 0, 1), of_warp);
  }
  if (threadIdx.x == 0) *a.y = total.sum + total.error;
}

struct Compensated {
  static constexpr ladder::Version version{"adds up the rounding errors, too"};

  template <class T>
  static std::size_t workspace(const reduction::Args<reduction::sum, T>& a) {
    const std::int64_t blocks = reduction::blocks_for(a.n, kTile<T>);
    return blocks > 1 ? static_cast<std::size_t>(blocks) * sizeof(Total) : 0;
  }
  template <class T>
  static std::size_t state(const reduction::Args<reduction::sum, T>& a) {
    return reduction::blocks_for(a.n, kTile<T>) > 1 ? sizeof(unsigned) : 0;
  }
  template <class T>
  static void launch(const reduction::Args<reduction::sum, T>& a, void* state,
                     cudaStream_t stream) {
    const std::int64_t blocks = reduction::blocks_for(a.n, kTile<T>);
    ladder::launch(compensated<T>, blocks, kBlock, 0, stream, a, state);
  }
};

const ladder::Register<Compensated, reduction::sum, float> sum;

}  // namespace
