// What the blocks of a cluster tell each other again and again, as sums of row after row: each
// pushes its own into the shared memory of all, and waits for what they push. Unlike a barrier of
// the cluster this does not wait until the L2 has the results that a block has stored before.
#pragma once

#include "device/ptx/cluster.hpp"

namespace ladder {

/// Between two calls of tell there is a __syncthreads. What is pushed alternates between two
/// places: a block that is one exchange ahead writes to the other one, and none can be two ahead,
/// because it waits for every block's next push, which comes after that block's __syncthreads. A
/// block may end after its last call: it has received all that is pushed to it.
template <int kBlocks>
class ClusterExchange {
 public:
  /// By one thread, before a cluster_sync.
  __device__ static void init() {
    for (auto& received : shared().received) {
      ptx::mbarrier_init(&received, 1);
      expect(&received);
    }
    ptx::fence_mbarrier_init();
  }

  /// Lane n gets what the block of rank n % kBlocks tells. `mine` is the block's in all of its
  /// threads.
  __device__ float4 tell(float4 mine) {
    const int place = calls_ % 2;
    ptx::Mbarrier* const received = &shared().received[place];
    if (threadIdx.x < kBlocks) {
      const float4* const to = &shared().of_block[place][ptx::cluster_rank()];
      ptx::cluster_store_async(ptx::cluster_address(to, threadIdx.x), mine,
                               ptx::cluster_address(received, threadIdx.x));
    }
    ptx::mbarrier_wait_cluster(received, calls_ / 2 % 2);
    if (threadIdx.x == 0) expect(received);  // what is told in the call after the next
    ++calls_;
    return shared().of_block[place][threadIdx.x % kBlocks];
  }

 private:
  __device__ static void expect(ptx::Mbarrier* received) {
    ptx::mbarrier_arrive_expect_tx(received, kBlocks * sizeof(float4));
  }

  struct Shared {
    float4 of_block[2][kBlocks];
    ptx::Mbarrier received[2];
  };
  __device__ static Shared& shared() {
    __shared__ Shared one;
    return one;
  }

  unsigned calls_ = 0;
};

}  // namespace ladder
