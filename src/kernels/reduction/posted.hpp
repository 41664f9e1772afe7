// The kernel of v15 and v16: each block posts its number together with a flag, in one 64-bit store,
// and the last block of the grid's order, not of time, waits until all are there.
//
// After the protocol LL of NCCL, NVIDIA's library for communication between GPUs: what is read is
// either nothing or the whole number, so that no fence has to order a number and its flag.
#pragma once

#include "block_total.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator, reduction::Loads;

constexpr int kBlock = 256;
constexpr int kNumbers = 4;                  // that a thread reads, of other blocks
constexpr int kGroup = kNumbers * kBlock;    // blocks of a group, at most
constexpr std::int64_t kMostBlocks = 65536;  // and so 64 groups

template <class T>
std::int64_t blocks_of(std::int64_t n) {
  return reduction::blocks_for(n, reduction::kTile<T, kBlock>, kMostBlocks);
}

/// A number that is on its way: 32 bits of it and, above them, a flag. Zero is none.
using Post = unsigned long long;
constexpr Post kPosted = Post{1} << 32;
constexpr int kMostWords = 2;  // of 32 bits in a number

__device__ volatile Post of_block[kMostWords][kMostBlocks];  // zero between launches
__device__ volatile Post of_group[kMostWords][kMostBlocks / kGroup];

template <class A>
constexpr int kWords = sizeof(A) / sizeof(std::uint32_t);

/// Posts number i.
template <class A, std::size_t kPosts>
__device__ void post(A number, volatile Post (&posts)[kMostWords][kPosts], unsigned i) {
  std::uint32_t word[kWords<A>];
  memcpy(word, &number, sizeof number);
#pragma unroll
  for (int w = 0; w < kWords<A>; ++w) posts[w][i] = kPosted | word[w];
}

/// The count posts from number `first` on, fewer than kGroup, and what thread 0 has made one number,
/// in thread 0; waits for those that are not there yet, and leaves zeros.
template <class Op, class A, std::size_t kPosts>
__device__ A collect(volatile Post (&posts)[kMostWords][kPosts], unsigned first, unsigned count,
                     A of_thread_0) {
  __syncthreads();  // warp 0 has read the shared memory of the block_total before this one
  Post found[kNumbers][kWords<A>];
  bool all_there;
  do {  // every thread asks for all of its posts before it looks at one
    all_there = true;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const unsigned at = i * kBlock + threadIdx.x;
#pragma unroll
      for (int w = 0; w < kWords<A>; ++w) {
        found[i][w] = kPosted;
        if (at < count) found[i][w] = posts[w][first + at];
      }
    }
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
#pragma unroll
      for (int w = 0; w < kWords<A>; ++w) all_there = all_there && found[i][w] != 0;
    }
  } while (!all_there);

  A total = threadIdx.x == 0 ? of_thread_0 : Op::template identity<A>();
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const unsigned at = i * kBlock + threadIdx.x;
    if (at < count) {
      std::uint32_t word[kWords<A>];
#pragma unroll
      for (int w = 0; w < kWords<A>; ++w) {
        posts[w][first + at] = 0;
        word[w] = static_cast<std::uint32_t>(found[i][w]);
      }
      A number;
      memcpy(&number, word, sizeof number);
      total = Op::combine(total, number);
    }
  }
  return reduction::block_total<Op, kBlock>(total);
}

template <class Op, Loads kHow, class T>
__global__ void __launch_bounds__(kBlock) posted(reduction::Args<Op, T> a) {
  using A = Accumulator<T>;
  const unsigned groups = ladder::ceil_div(gridDim.x, kGroup);
  const unsigned group = blockIdx.x / kGroup, first = group * kGroup;
  const unsigned in_group = min(gridDim.x - first, kGroup);

  const A mine = reduction::thread_total<Op, kBlock, kHow>(a.x, a.n, blockIdx.x, gridDim.x);
  A total = reduction::block_total<Op, kBlock>(mine);
  if (in_group > 1) {
    if (blockIdx.x != first + in_group - 1) {
      if (threadIdx.x == 0) post(total, of_block, blockIdx.x);
      return;
    }
    total = collect<Op>(of_block, first, in_group - 1, total);
  }
  if (groups > 1) {
    if (group != groups - 1) {
      if (threadIdx.x == 0) post(total, of_group, group);
      return;
    }
    total = collect<Op>(of_group, 0, groups - 1, total);
  }
  if (threadIdx.x == 0) *a.y = total;
}

template <class Op, Loads kHow, class T>
void launch_posted(const reduction::Args<Op, T>& a, cudaStream_t stream) {
  ladder::launch(posted<Op, kHow, T>, blocks_of<T>(a.n), kBlock, 0, stream, a);
}

}  // namespace
