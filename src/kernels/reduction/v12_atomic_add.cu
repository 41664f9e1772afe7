// Idea      each block adds its partial sum to y, by one atomicAdd
// Vs v10    no ticket, no last block; but y must be cleared first, which is one more operation of
//           the GPU. The blocks add in the order in which they finish: sums of floating-point
//           numbers differ in their last bits from launch to launch, those of integers don't
// Bound by  DRAM bandwidth; at small n by clearing y
// Limits    not deterministic, except for integers. Blocks' sums below fp32's normal numbers count
//           as zero, because atomics take them so. x starts at a multiple of 16 bytes.
// Tile      64 KiB of x, 1024 threads
//
// The blocks' sums go into y one after another, and each addition rounds. Therefore blocks are few,
// one per SM, and large, to have as many bytes in flight as v10's.
#include "block_reduce.hpp"
#include "device/sm_count.hpp"

namespace {

constexpr int kBlock = 1024;

template <class T>
__global__ void __launch_bounds__(kBlock) atomic_add(reduction::Args<reduction::sum, T> a) {
  using Op = reduction::sum;
  __shared__ reduction::Accumulator<T> of_warp[kBlock / 32];
  const auto mine = reduction::thread_reduce<Op, kBlock>(a.x, a.n, blockIdx.x, gridDim.x);
  const auto total = reduction::block_reduce<Op>(mine, of_warp);
  if (threadIdx.x == 0) atomicAdd(a.y, total);
}

struct AtomicAdd {
  static constexpr ladder::Version version{.idea = "blocks add to y by atomicAdd, in any order",
                                           .unordered_sum = "y"};

  template <class T>
  static void launch(const reduction::Args<reduction::sum, T>& a, cudaStream_t stream) {
    const std::int64_t tiles = ladder::ceil_div(a.n, reduction::kTile<T, kBlock>);
    const std::int64_t blocks = max(min(tiles, std::int64_t{ladder::sm_count()}), std::int64_t{1});
    ladder::fill_async(a.y, 0, sizeof *a.y, stream);
    ladder::launch(atomic_add<T>, blocks, kBlock, 0, stream, a);
  }
};

const ladder::Register<AtomicAdd, reduction::sum, float, double, std::int32_t> sum;

}  // namespace
