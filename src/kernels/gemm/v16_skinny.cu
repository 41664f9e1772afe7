// Idea      for a few rows or columns, one pass over the big matrix: a matrix-vector product with
//           up to 16 vectors at once
// Vs v15    no tile is shared by the block, most of which would be padding: each warp streams its
//           part of the big matrix through a queue of its own, and waits for no other warp until
//           the end. Where K is split, the block of a tile that is done last adds up, in the order
//           of K: no second launch
// Bound by  DRAM bandwidth up to 16 rows or columns: 2 operations for a number and row, so at 16 of
//           them 8 for a byte. Above, the big matrix is read again for each 16 rows
// Limits    M up to 1048560; few rows take 97 to 108 KiB of shared memory, where compute capability
//           7.5 has 64 KiB and 8.6, 8.9 and 12.0 have 99 KiB; two launches must not overlap, as they
//           share the counters of the blocks that are done
// Tile      16 x 128 per block of 8 warps, each of which sums up every eighth group of 4 steps of
//           k; 6 stages of a group per warp in 108 KiB of shared memory, one block per SM. Or, of
//           few columns, 32 x 16, 4 rows per warp; 33 KiB of shared memory, two blocks per SM
//
// The queue: five groups of 4 rows of B are on their way while one is multiplied, 2 KiB each. That
// is 80 KiB per SM; 3 TB/s, one microsecond away, are 23 KiB per SM, and twice that under load.
//
// Up to 16 rows read B once, and say so: its lines leave the L2 first. Otherwise they push out what
// kernels before have written there, and the reads wait for those writes to reach DRAM.
//
// Where that makes fewer blocks than there are places, K is split, as in v15. The kernels are in
// skinny.hpp, because v20 has them too.
#include "skinny.hpp"

namespace {

struct Skinny {
  static constexpr ladder::Version version{"few rows or columns: one pass over the big matrix"};

  static std::size_t workspace(const gemm::Args<float>& g) { return SkinnyPlan(g).workspace(); }
  static void launch(const gemm::Args<float>& g, cudaStream_t stream) { launch_skinny(g, stream); }
  static ladder::Support supports(const gemm::Problem& p) {
    if (p.m > kFew * 65535 && p.n > kFew) return ladder::unsupported("M is over 1048560");
    return ladder::needs_shared_memory(shared_of_skinny(p.m, p.n));
  }
};

const ladder::Register<Skinny, gemm, float> registration;

}  // namespace
