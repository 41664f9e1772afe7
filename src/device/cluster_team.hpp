// A team of threads, as in row_team.hpp, of several blocks: a cluster, whose blocks read each
// other's sums from shared memory. Hopper only; the kernel has __cluster_dims__(Team::kBlocks).
#pragma once

#include "device/ptx/cluster.hpp"
#include "device/row_team.hpp"

namespace ladder {

template <int kBlocks_, int kBlock_, bool kHoldsAll_ = true>
struct ClusterTeam {
  static constexpr int kBlocks = kBlocks_, kBlock = kBlock_, kThreads = kBlocks * kBlock;
  static constexpr int kTeams = 1;  // of a block, or less
  static constexpr bool kHoldsAll = kHoldsAll_;

  __device__ static int rank() { return ptx::cluster_rank() * kBlock + threadIdx.x; }
  __device__ static std::int64_t row() { return blockIdx.x / kBlocks; }
  __device__ static std::int64_t stride() { return gridDim.x / kBlocks; }
  static std::int64_t blocks(int rows) { return std::int64_t{rows} * kBlocks; }

  template <int kSums>
  struct SumStorage {
    typename BlockTeam<kBlock>::template SumStorage<kSums> of_warps;
    float4 of_block;
    static_assert(kSums <= 4);
  };
  /// All blocks add the same numbers in the same order, and get the same bits.
  template <int kSums>
  __device__ static void sum(float (&values)[kSums], SumStorage<kSums>& storage) {
    BlockTeam<kBlock>::sum(values, storage.of_warps);
    if (threadIdx.x == 0) {
      float4 mine{};
      std::memcpy(&mine, values, sizeof values);
      storage.of_block = mine;
    }
    ptx::cluster_sync();
    const unsigned rank = threadIdx.x % kBlocks;
    const float4 others = ptx::cluster_load(ptx::cluster_address(&storage.of_block, rank));
    std::memcpy(values, &others, sizeof values);
#pragma unroll
    for (float& value : values) value = warp_sum<kBlocks>(value);
  }

  /// No block ends while another may read its sums.
  __device__ static void leave() { ptx::cluster_sync(); }
};

}  // namespace ladder
