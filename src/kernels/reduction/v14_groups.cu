// Idea      tickets in two levels: the last block of a group reduces its partial results, and the
//           last group's block those of the groups
// Vs v10    no block has more than 1024 partial results to read in the end, where v10's last block
//           has up to 16384, while the rest of the GPU is idle. So there may be more blocks: one
//           per tile of x up to 65536, which the GPU starts in the order of their addresses; on an
//           H200 sums of fp32 take 17 % longer at 2^28
// Bound by  DRAM bandwidth; at small n by one launch, one trip to DRAM, and three to the L2 cache
// Limits    x starts at a multiple of 16 bytes.
// Tile      16 KiB of x, 256 threads
#include "block_reduce.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;

constexpr int kBlock = 256;
constexpr int kPartials = 4;                 // that a thread of a last block reads
constexpr int kGroup = kPartials * kBlock;   // blocks of a group, at most
constexpr std::int64_t kMostBlocks = 65536;  // and so 64 groups

template <class T>
std::int64_t blocks_of(std::int64_t n) {
  return reduction::blocks_for(n, reduction::kTile<T, kBlock>, kMostBlocks);
}

/// Writes a partial result and takes a ticket: whether this block is the last of `count`.
template <class A>
__device__ bool is_last_of(unsigned count, A partial, A* to, unsigned* done, bool& is_last) {
  if (threadIdx.x == 0) {
    *to = partial;
    __threadfence();  // whoever sees the count sees the partial result
    is_last = atomicInc(done, count - 1) == count - 1;
    if (is_last) __threadfence();  // this block, having seen the count, sees the partial results
  }
  __syncthreads();
  return is_last;
}

/// Reduces partials[0 … count), count at most kGroup, by way of of_warp; thread 0 returns the
/// result.
template <class Op, class A>
__device__ A reduce_partials(const A* partials, unsigned count, A (&of_warp)[kBlock / 32]) {
  A mine[kPartials];
#pragma unroll
  for (int i = 0; i < kPartials; ++i) {
    const unsigned at = i * kBlock + threadIdx.x;
    mine[i] = at < count ? partials[at] : Op::template identity<A>();
  }
#pragma unroll
  for (int i = 1; i < kPartials; ++i) mine[0] = Op::combine(mine[0], mine[i]);
  return reduction::block_reduce<Op>(mine[0], of_warp);
}

/// blocks_done: of each group, and behind them how many groups are done
template <class Op, class T>
__global__ void __launch_bounds__(kBlock)
    in_groups(reduction::Args<Op, T> a, unsigned* blocks_done) {
  using A = Accumulator<T>;
  __shared__ bool is_last;
  __shared__ A of_warp[kBlock / 32];
  A* const of_block = static_cast<A*>(a.workspace);  // [gridDim.x]
  A* const of_group = of_block + gridDim.x;          // [groups]
  const unsigned groups = ladder::ceil_div(gridDim.x, kGroup);
  const unsigned group = blockIdx.x / kGroup, first = group * kGroup;
  const unsigned in_group = min(gridDim.x - first, kGroup);

  const A mine = reduction::thread_reduce<Op, kBlock>(a.x, a.n, blockIdx.x, gridDim.x);
  A total = reduction::block_reduce<Op>(mine, of_warp);
  if (in_group > 1) {
    if (!is_last_of(in_group, total, &of_block[blockIdx.x], &blocks_done[group], is_last)) return;
    total = reduce_partials<Op>(of_block + first, in_group, of_warp);
  }
  if (groups > 1) {
    unsigned* const groups_done = blocks_done + groups;
    if (!is_last_of(groups, total, &of_group[group], groups_done, is_last)) return;
    total = reduce_partials<Op>(of_group, groups, of_warp);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct Groups {
  static constexpr reduction::Problem test_problems[] = {{2'100'001}};  // two groups, in fp64
  static constexpr ladder::Version version{"tickets in two levels, one tile per block"};

  template <class Op, class T>
  static std::size_t workspace(const reduction::Args<Op, T>& a) {
    const std::int64_t blocks = blocks_of<T>(a.n);
    const std::int64_t partials = blocks + ladder::ceil_div(blocks, kGroup);
    return static_cast<std::size_t>(partials) * sizeof(Accumulator<T>);
  }
  template <class Op, class T>
  static std::size_t state(const reduction::Args<Op, T>& a) {
    const std::int64_t blocks = blocks_of<T>(a.n);
    const std::int64_t counters = ladder::ceil_div(blocks, kGroup) + 1;
    return blocks > 1 ? static_cast<std::size_t>(counters) * sizeof(unsigned) : 0;
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, void* state, cudaStream_t stream) {
    ladder::launch(in_groups<Op, T>, blocks_of<T>(a.n), kBlock, 0, stream, a, state);
  }
};

const ladder::Register<Groups, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<Groups, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;

}  // namespace
