// Idea      x is read once, so its lines are the first that the L2 cache evicts: they replace each
//           other, not those of what is still to be written to DRAM, or used again
// Vs v15    streaming loads where x is up to six times as large as the L2. A longer x fills it in any
//           case, and is read by ordinary loads
// Bound by  as v15
// Limits    as v15
// Tile      as v15
#include "block_reduce.hpp"
#include "device/l2_bytes.hpp"
#include "passes.hpp"

namespace {

using reduction::Accumulator, reduction::Loads;

constexpr int kBlock = 256;
constexpr int kPartials = 4;                 // that a thread reads, of other blocks
constexpr int kGroup = kPartials * kBlock;   // blocks of a group, at most
constexpr std::int64_t kMostBlocks = 65536;  // and so 64 groups
constexpr int kMostStreamed = 6;             // times the L2 cache

template <class T>
std::int64_t blocks_of(std::int64_t n) {
  return reduction::blocks_for(n, reduction::kTile<T, kBlock>, kMostBlocks);
}

/// 32 bits of a partial result and, above them, the ready flag; zero is not published yet.
using Published = unsigned long long;
constexpr Published kReady = Published{1} << 32;
constexpr int kMostWords = 2;  // of 32 bits in a result

__device__ volatile Published of_block[kMostWords][kMostBlocks];  // zero between launches
__device__ volatile Published of_group[kMostWords][kMostBlocks / kGroup];

template <class A>
constexpr int kWords = sizeof(A) / sizeof(std::uint32_t);

/// Publishes partial result i.
template <class A, std::size_t kCount>
__device__ void publish(A partial, volatile Published (&published)[kMostWords][kCount],
                        unsigned i) {
  std::uint32_t word[kWords<A>];
  memcpy(word, &partial, sizeof partial);
#pragma unroll
  for (int w = 0; w < kWords<A>; ++w) published[w][i] = kReady | word[w];
}

/// Waits for `count` partial results, fewer than kGroup, from number `first` on; reduces them and
/// of_thread_0, which thread 0 has; thread 0 returns the result. Leaves zeros.
template <class Op, class A, std::size_t kCount>
__device__ A collect(volatile Published (&published)[kMostWords][kCount], unsigned first,
                     unsigned count, A of_thread_0, A (&of_warp)[kBlock / 32]) {
  __syncthreads();  // warp 0 has read of_warp in the block_reduce before this one
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
        if (at < count) found[i][w] = published[w][first + at];
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
        published[w][first + at] = 0;
        word[w] = static_cast<std::uint32_t>(found[i][w]);
      }
      A partial;
      memcpy(&partial, word, sizeof partial);
      mine = Op::combine(mine, partial);
    }
  }
  return reduction::block_reduce<Op>(mine, of_warp);
}

template <class Op, Loads kHow, class T>
__global__ void __launch_bounds__(kBlock) streaming(reduction::Args<Op, T> a) {
  using A = Accumulator<T>;
  __shared__ A of_warp[kBlock / 32];
  const unsigned groups = ladder::ceil_div(gridDim.x, kGroup);
  const unsigned group = blockIdx.x / kGroup, first = group * kGroup;
  const unsigned in_group = min(gridDim.x - first, kGroup);

  const A mine = reduction::thread_reduce<Op, kBlock, kHow>(a.x, a.n, blockIdx.x, gridDim.x);
  A total = reduction::block_reduce<Op>(mine, of_warp);
  if (in_group > 1) {
    if (blockIdx.x != first + in_group - 1) {
      if (threadIdx.x == 0) publish(total, of_block, blockIdx.x);
      return;
    }
    total = collect<Op>(of_block, first, in_group - 1, total, of_warp);
  }
  if (groups > 1) {
    if (group != groups - 1) {
      if (threadIdx.x == 0) publish(total, of_group, group);
      return;
    }
    total = collect<Op>(of_group, 0, groups - 1, total, of_warp);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct Streaming {
  static constexpr reduction::Problem test_problems[] = {{2'100'001}};  // two groups, in fp64
  static constexpr ladder::Version version{"streaming loads, which leave the L2 cache alone"};

  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, cudaStream_t stream) {
    const bool streams =
        a.n <= kMostStreamed * ladder::l2_bytes() / static_cast<std::int64_t>(sizeof(T));
    const auto kernel =
        streams ? streaming<Op, Loads::streaming, T> : streaming<Op, Loads::ordinary, T>;
    ladder::launch(kernel, blocks_of<T>(a.n), kBlock, 0, stream, a);
  }
};

const ladder::Register<Streaming, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<Streaming, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;

}  // namespace
