// Idea      argmax: each thread keeps the best element it has seen, and where it was; from then on
//           value and index travel together, through the same tree
// Vs v10    two comparisons and three selections per element instead of one maximum, which hide
//           behind the loads
// Bound by  DRAM bandwidth, as v10
// Limits    x starts at a multiple of 16 bytes
// Tile      16 KiB of x, 256 threads
//
// The first of equals wins, although blocks and lanes combine in another order: there the index
// decides. A thread meets its own elements in the order of their indices: no need to compare these.
#include "device/vector.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;
using reduction::Candidate;

constexpr int kBlock = 256;
constexpr int kLoads = 4;                   // of 128 bits per thread, in flight together
constexpr std::int64_t kMostBlocks = 4096;  // a thread of the last block has 16 candidates to read

template <class T>
constexpr int kTile = kBlock* kLoads* ladder::Vec128<T>::size;  // elements

/// The best of this thread's elements in the tiles block, block + blocks, block + 2 blocks, …
template <class T>
__device__ Candidate<Accumulator<T>> thread_best(const T* x, std::int64_t n, unsigned block,
                                                 unsigned blocks) {
  using Vec = ladder::Vec128<T>;
  using A = Accumulator<T>;
  const std::int64_t vectors = n / Vec::size;
  const auto whole_tiles = static_cast<unsigned>(n / kTile<T>);
  const auto vector_of = [](unsigned tile, int i) {
    return (std::int64_t{tile} * kLoads + i) * kBlock + threadIdx.x;
  };

  // Where it was in two small numbers, of which one is a constant where it is set.
  A best = reduction::kLeast<A>;
  unsigned best_tile = 0;
  int best_place = 0;  // element of the kLoads vectors of a tile
  auto compare = [&](const Vec& v, unsigned tile, int i) {
#pragma unroll
    for (int e = 0; e < Vec::size; ++e) {
      const auto value = static_cast<A>(v[e]);
      if (reduction::beats(value, best)) {
        best = value;
        best_tile = tile;
        best_place = i * Vec::size + e;
      }
    }
  };

  unsigned tile = block;
  for (; tile < whole_tiles; tile += blocks) {
    Vec v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v[i] = Vec::load(x + vector_of(tile, i) * Vec::size);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) compare(v[i], tile, i);
  }
  if (tile == whole_tiles) {  // the block whose tile is next takes the remainder
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int64_t v = vector_of(tile, i);
      if (v < vectors) compare(Vec::load(x + v * Vec::size), tile, i);
    }
  }
  Candidate<A> mine{
      best, vector_of(best_tile, best_place / Vec::size) * Vec::size + best_place % Vec::size};
  const std::int64_t last = vectors * Vec::size + threadIdx.x;
  if (tile == whole_tiles && last < n) {
    const auto value = static_cast<A>(x[last]);
    if (reduction::beats(value, mine.value)) mine = {value, last};
  }
  return mine;
}

/// The best of a warp's lanes; lane 0 returns it.
template <class A>
__device__ Candidate<A> warp_best(Candidate<A> mine) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    mine = reduction::better(mine, {__shfl_down_sync(0xffffffffu, mine.value, s),
                                    __shfl_down_sync(0xffffffffu, mine.index, s)});
  }
  return mine;
}

/// The best of the block's threads, by way of shared memory; thread 0 returns it.
/// Between two calls with the same arrays there must be a barrier.
template <class A>
__device__ Candidate<A> block_best(Candidate<A> mine, A (&value)[kBlock / 32],
                                   std::int64_t (&index)[kBlock / 32]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = warp_best(mine);
  if (lane == 0) {
    value[warp] = mine.value;
    index[warp] = mine.index;
  }
  __syncthreads();
  if (warp == 0) {
    mine = {reduction::kLeast<A>, 0};
    if (lane < kBlock / 32) mine = {value[lane], index[lane]};
    mine = warp_best(mine);
  }
  return mine;
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    first_best(reduction::Args<reduction::argmax, T> a, unsigned* blocks_done) {
  using A = Accumulator<T>;
  __shared__ A value_of_warp[kBlock / 32];
  __shared__ std::int64_t index_of_warp[kBlock / 32];
  Candidate<A> best = thread_best(a.x, a.n, blockIdx.x, gridDim.x);
  best = block_best(best, value_of_warp, index_of_warp);
  if (gridDim.x > 1) {
    auto* const index = static_cast<std::int64_t*>(a.workspace);  // [gridDim.x]
    auto* const value = reinterpret_cast<A*>(index + gridDim.x);  // [gridDim.x]
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      index[blockIdx.x] = best.index;
      value[blockIdx.x] = best.value;
      __threadfence();  // whoever sees the count sees the candidate
      const unsigned before = atomicInc(blocks_done, gridDim.x - 1);  // from the limit on to 0
      is_last = before == gridDim.x - 1;
      if (is_last) __threadfence();  // this block, having seen the count, sees the candidates
    }
    __syncthreads();
    if (!is_last) return;
    best = {reduction::kLeast<A>, 0};
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kBlock) {
      best = reduction::better(best, {value[i], index[i]});
    }
    best = block_best(best, value_of_warp, index_of_warp);
  }
  if (threadIdx.x == 0) *a.y = best.index;
}

struct Argmax {
  static constexpr ladder::Version version{"value and index through one launch"};

  template <class T>
  static std::int64_t blocks(std::int64_t n) {
    return reduction::blocks_for(n, kTile<T>, kMostBlocks);
  }
  template <class T>
  static std::size_t workspace(const reduction::Args<reduction::argmax, T>& a) {
    const auto numbers = static_cast<std::size_t>(blocks<T>(a.n));
    return numbers > 1 ? numbers * (sizeof(std::int64_t) + sizeof(Accumulator<T>)) : 0;
  }
  template <class T>
  static std::size_t state(const reduction::Args<reduction::argmax, T>& a) {
    return blocks<T>(a.n) > 1 ? sizeof(unsigned) : 0;
  }
  template <class T>
  static void launch(const reduction::Args<reduction::argmax, T>& a, void* state,
                     cudaStream_t stream) {
    ladder::launch(first_best<T>, blocks<T>(a.n), kBlock, 0, stream, a, state);
  }
};

const ladder::Register<Argmax, reduction::argmax, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    argmax;

}  // namespace
