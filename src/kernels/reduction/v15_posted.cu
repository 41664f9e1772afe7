// Idea      no tickets: a block publishes its partial result and a ready flag in one 64-bit store,
//           and the highest-numbered block of a group polls until the group's are all there
// Vs v14    a block ends with a store that nobody waits for, instead of a store, a fence that waits
//           for it, and an atomic that comes back; the result arrives with one trip to the L2 cache
//           instead of three
// Bound by  DRAM bandwidth; at small n by one launch, one trip to DRAM, and two to the L2 cache
// Limits    relies on ascending dispatch: blocks poll for lower numbers. x starts at a multiple of 16
//           bytes.
// Tile      16 KiB of x, 256 threads
//
// After the protocol LL of NCCL, NVIDIA's library for communication between GPUs: a reader sees
// either nothing or the whole word, so that no fence has to order a result and its flag.
#include "block_reduce.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator;

constexpr int kBlock = 256;
constexpr int kPartials = 4;                 // that a thread reads, of other blocks
constexpr int kGroup = kPartials * kBlock;   // blocks of a group, at most
constexpr std::int64_t kMostBlocks = 65536;  // and so 64 groups

template <class T>
std::int64_t blocks_of(std::int64_t n) {
  return reduction::blocks_for(n, reduction::kTile<T, kBlock>, kMostBlocks);
}

/// 32 bits of a partial result and, above them, the ready flag; zero is not published yet.
using Published = unsigned long long;
constexpr Published kReady = Published{1} << 32;

template <class A>
constexpr int kWords = sizeof(A) / sizeof(std::uint32_t);  // of a result

/// Where word w of partial result i is: of every kBlock results the first words, then the second ones.
template <class A>
__host__ __device__ constexpr unsigned place(unsigned i, int w) {
  return (i / kBlock * kWords<A> + w) * kBlock + i % kBlock;
}

/// The number of the first group's result, behind those of the blocks.
__host__ __device__ constexpr unsigned first_of_groups(unsigned blocks) {
  return ladder::ceil_div(blocks, unsigned{kBlock}) * kBlock;
}

/// Publishes partial result i.
template <class A>
__device__ void publish(A partial, volatile Published* published, unsigned i) {
  std::uint32_t word[kWords<A>];
  memcpy(word, &partial, sizeof partial);
#pragma unroll
  for (int w = 0; w < kWords<A>; ++w) published[place<A>(i, w)] = kReady | word[w];
}

/// Waits for `count` partial results, fewer than kGroup, from number `first` on, a multiple of kBlock;
/// reduces them and of_thread_0, which thread 0 has; thread 0 returns the result. Leaves zeros.
template <class Op, class A>
__device__ A collect(volatile Published* published, unsigned first, unsigned count, A of_thread_0,
                     A (&of_warp)[kBlock / 32]) {
  __syncthreads();  // warp 0 has read of_warp in the block_reduce before this one
  volatile Published* const from = published + place<A>(first + threadIdx.x, 0);
  Published found[kPartials][kWords<A>];
  bool all_ready;
  do {  // every thread loads all of its words before it tests one
    all_ready = true;
#pragma unroll
    for (int i = 0; i < kPartials; ++i) {
      const unsigned at = i * kBlock + threadIdx.x;
#pragma unroll
      for (int w = 0; w < kWords<A>; ++w) {
        found[i][w] = kReady;
        if (at < count) found[i][w] = from[(i * kWords<A> + w) * kBlock];
      }
    }
#pragma unroll
    for (int i = 0; i < kPartials; ++i) {
#pragma unroll
      for (int w = 0; w < kWords<A>; ++w) all_ready = all_ready && found[i][w] != 0;
    }
  } while (!all_ready);

  A mine = threadIdx.x == 0 ? of_thread_0 : Op::template identity<A>();
#pragma unroll
  for (int i = 0; i < kPartials; ++i) {
    const unsigned at = i * kBlock + threadIdx.x;
    if (at < count) {
      std::uint32_t word[kWords<A>];
#pragma unroll
      for (int w = 0; w < kWords<A>; ++w) {
        from[(i * kWords<A> + w) * kBlock] = 0;
        word[w] = static_cast<std::uint32_t>(found[i][w]);
      }
      A partial;
      memcpy(&partial, word, sizeof partial);
      mine = Op::combine(mine, partial);
    }
  }
  return reduction::block_reduce<Op>(mine, of_warp);
}

/// published: the blocks' results, and those of groups where there are several
template <class Op, class T>
__global__ void __launch_bounds__(kBlock)
    posted(reduction::Args<Op, T> a, volatile Published* published) {
  using A = Accumulator<T>;
  __shared__ A of_warp[kBlock / 32];
  const unsigned groups = ladder::ceil_div(gridDim.x, kGroup);
  const unsigned group = blockIdx.x / kGroup, first = group * kGroup;
  const unsigned in_group = min(gridDim.x - first, kGroup);

  const A mine = reduction::thread_reduce<Op, kBlock>(a.x, a.n, blockIdx.x, gridDim.x);
  A total = reduction::block_reduce<Op>(mine, of_warp);
  if (in_group > 1) {
    if (blockIdx.x != first + in_group - 1) {
      if (threadIdx.x == 0) publish(total, published, blockIdx.x);
      return;
    }
    total = collect<Op>(published, first, in_group - 1, total, of_warp);
  }
  if (groups > 1) {
    const unsigned first_group = first_of_groups(gridDim.x);
    if (group != groups - 1) {
      if (threadIdx.x == 0) publish(total, published, first_group + group);
      return;
    }
    total = collect<Op>(published, first_group, groups - 1, total, of_warp);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct Posted {
  static constexpr reduction::Problem test_problems[] = {{4'200'013}};  // two groups, in fp32
  static constexpr ladder::Version version{"numbers with a flag in one store, no tickets"};

  template <class Op, class T>
  static std::size_t state(const reduction::Args<Op, T>& a) {
    using A = Accumulator<T>;
    const auto blocks = static_cast<unsigned>(blocks_of<T>(a.n));
    if (blocks == 1) return 0;
    const unsigned groups = ladder::ceil_div(blocks, unsigned{kGroup});
    const unsigned results = groups > 1 ? first_of_groups(blocks) + groups : blocks;
    return (place<A>(results - 1, kWords<A> - 1) + 1) * sizeof(Published);
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, void* state, cudaStream_t stream) {
    ladder::launch(posted<Op, T>, blocks_of<T>(a.n), kBlock, 0, stream, a, state);
  }
};

const ladder::Register<Posted, reduction::sum, float, ladder::half> sum;

}  // namespace
