// Idea      tickets in two levels: the last block of a group reduces what its group left, and the
//           last group's reduces what the groups left
// Vs v10    no block has more than 1024 numbers to read in the end, where v10's last block has up
//           to 16384, while the rest of the GPU is idle. So there may be more blocks: one per tile
//           of x up to 65536, which the GPU hands out in the order of their addresses; on an H200
//           sums of fp32 take 17 % longer at 2^28
// Bound by  DRAM bandwidth; at small n by one launch, one trip to DRAM, and three to the L2 cache
// Limits    two launches must not overlap, as they share the counters. x starts at a multiple of 16
//           bytes.
// Tile      16 KiB of x, 256 threads
#include "block_total.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;

constexpr int kBlock = 256;
constexpr int kNumbers = 4;                  // that a thread of a last block reads
constexpr int kGroup = kNumbers * kBlock;    // blocks of a group, at most
constexpr std::int64_t kMostBlocks = 65536;  // and so 64 groups

template <class T>
std::int64_t blocks_of(std::int64_t n) {
  return reduction::blocks_for(n, reduction::kTile<T, kBlock>, kMostBlocks);
}

__device__ unsigned blocks_done[kMostBlocks / kGroup], groups_done;  // zero between launches

/// Leaves a number and takes a ticket: whether this block is the last of `count`.
template <class A>
__device__ bool leaves_last(A number, A* to, unsigned* done, unsigned count) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    *to = number;
    __threadfence();  // whoever sees the count sees the number
    is_last = atomicInc(done, count - 1) == count - 1;
    if (is_last) __threadfence();  // this block, having seen the count, sees the numbers
  }
  __syncthreads();
  return is_last;
}

/// left[0 … count) made one number, in thread 0; count is at most kGroup.
template <class Op, class A>
__device__ A total_of(const A* left, unsigned count) {
  A number[kNumbers];
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const unsigned at = i * kBlock + threadIdx.x;
    number[i] = at < count ? left[at] : Op::template identity<A>();
  }
#pragma unroll
  for (int i = 1; i < kNumbers; ++i) number[0] = Op::combine(number[0], number[i]);
  return reduction::block_total<Op, kBlock>(number[0]);
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) in_groups(reduction::Args<Op, T> a) {
  using A = Accumulator<T>;
  A* const of_block = static_cast<A*>(a.workspace);  // [gridDim.x]
  A* const of_group = of_block + gridDim.x;          // [groups]
  const unsigned groups = ladder::ceil_div(gridDim.x, kGroup);
  const unsigned group = blockIdx.x / kGroup, first = group * kGroup;
  const unsigned in_group = min(gridDim.x - first, kGroup);

  const A mine = reduction::thread_total<Op, kBlock>(a.x, a.n, blockIdx.x, gridDim.x);
  A total = reduction::block_total<Op, kBlock>(mine);
  if (in_group > 1) {
    if (!leaves_last(total, &of_block[blockIdx.x], &blocks_done[group], in_group)) return;
    total = total_of<Op>(of_block + first, in_group);
  }
  if (groups > 1) {
    if (!leaves_last(total, &of_group[group], &groups_done, groups)) return;
    total = total_of<Op>(of_group, groups);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct Groups {
  static constexpr reduction::Problem test_problems[] = {{2'100'001}};  // two groups, in fp64
  static constexpr ladder::Version version{"tickets in two levels, one tile per block"};

  template <class Op, class T>
  static std::size_t workspace(const reduction::Args<Op, T>& a) {
    const std::int64_t blocks = blocks_of<T>(a.n);
    const std::int64_t numbers = blocks + ladder::ceil_div(blocks, kGroup);
    return static_cast<std::size_t>(numbers) * sizeof(Accumulator<T>);
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, cudaStream_t stream) {
    ladder::launch(in_groups<Op, T>, blocks_of<T>(a.n), kBlock, 0, stream, a);
  }
};

const ladder::Register<Groups, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<Groups, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;

}  // namespace
