// What the blocks of a cluster tell each other again and again, as sums of row after row: each
// pushes its own into the shared memory of all, and waits for what they push. Unlike a barrier of
// the cluster this does not wait until the L2 has the results that a block has stored before.
#pragma once

#include "harness/ptx/cluster.hpp"

namespace ladder {

/// What is told is heard in the same order; one more may be told before. Between two calls of tell
/// there is a __syncthreads. Four places take turns: a block may be two exchanges ahead, because it
/// hears what every block has told, and is overwritten only by those that have heard the answer.
/// A block may end after it has heard all: it has received all that is pushed to it.
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

  /// Tells all blocks; `mine` is the block's, in all of its threads.
  __device__ void tell(float4 mine) {
    if (threadIdx.x < kBlocks) {
      const float4* const to = &shared().of_block[told_ % kPlaces][ptx::cluster_rank()];
      ptx::Mbarrier* const received = &shared().received[told_ % kPlaces];
      ptx::cluster_store_async(ptx::cluster_address(to, threadIdx.x), mine,
                               ptx::cluster_address(received, threadIdx.x));
    }
    ++told_;
  }

  /// Lane n gets what the block of rank n % kBlocks has told.
  __device__ float4 hear() {
    const int place = heard_ % kPlaces;
    ptx::Mbarrier* const received = &shared().received[place];
    ptx::mbarrier_wait_cluster(received, heard_ / kPlaces % 2);
    if (threadIdx.x == 0) expect(received);  // what will be told when all places have had a turn
    ++heard_;
    return shared().of_block[place][threadIdx.x % kBlocks];
  }

 private:
  static constexpr int kPlaces = 4;

  __device__ static void expect(ptx::Mbarrier* received) {
    ptx::mbarrier_arrive_expect_tx(received, kBlocks * sizeof(float4));
  }

  struct Shared {
    float4 of_block[kPlaces][kBlocks];
    ptx::Mbarrier received[kPlaces];
  };
  __device__ static Shared& shared() {
    __shared__ Shared one;
    return one;
  }

  unsigned told_ = 0, heard_ = 0;
};

}  // namespace ladder
