// An all-gather of 16 bytes of each block of a cluster, again and again, as sums of row after row:
// each block pushes its message into the shared memory of all (st.async), and waits for what they
// push. Unlike a barrier of the cluster this does not wait until the L2 has the results that a block
// has stored before.
#pragma once

#include "device/ptx/cluster.hpp"

#include <cstring>
#include <type_traits>

namespace ladder {

/// Between two calls of gather or sum there is a __syncthreads. Messages alternate between two stages: a
/// block that is one call ahead writes to the other stage, and none can be two ahead, because it
/// waits for every block's next message, which comes after that block's __syncthreads. A block may
/// end after its last call: it has received all that is pushed to it.
template <class Message, int kBlocks>
class ClusterAllGather {
 public:
  static_assert(sizeof(Message) == sizeof(float4) && std::is_trivially_copyable_v<Message>);

  struct Storage {  // in shared memory
    float4 of_block[2][kBlocks];
    ptx::Mbarrier received[2];
  };

  __device__ explicit ClusterAllGather(Storage& storage) : storage_(storage) {}

  /// By one thread, before a cluster_sync.
  __device__ void init() const {
    for (auto& received : storage_.received) {
      ptx::mbarrier_init(&received, 1);
      expect(&received);
    }
    ptx::fence_mbarrier_init();
  }

  /// Lane n gets the message of the block of rank n % kBlocks. `mine` is the block's in all of its
  /// threads.
  __device__ Message gather(const Message& mine) {
    const float4 bytes = receive(mine)[threadIdx.x % kBlocks];
    Message of_rank;
    std::memcpy(static_cast<void*>(&of_rank), &bytes, sizeof of_rank);
    return of_rank;
  }

  /// The sums over the blocks of up to 4 numbers, in the same order in all threads.
  template <int kNumbers>
  __device__ void sum(float (&values)[kNumbers]) {
    static_assert(kNumbers <= 4 && std::is_same_v<Message, float4>);
    float4 mine{};
    std::memcpy(&mine, values, sizeof values);
    const float4* const of_blocks = receive(mine);
#pragma unroll
    for (float& value : values) value = 0;
#pragma unroll 2  // all of them would need many registers
    for (int rank = 0; rank < kBlocks; ++rank) {
      const float4 of_block = of_blocks[rank];
      float terms[kNumbers];
      std::memcpy(terms, &of_block, sizeof terms);
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) values[i] += terms[i];
    }
  }

 private:
  /// The messages of all blocks.
  __device__ const float4* receive(const Message& mine) {
    const int stage = calls_ % 2;
    ptx::Mbarrier* const received = &storage_.received[stage];
    float4 bytes;
    std::memcpy(&bytes, &mine, sizeof bytes);
    if (threadIdx.x < kBlocks) {
      const float4* const to = &storage_.of_block[stage][ptx::cluster_rank()];
      ptx::cluster_store_async(ptx::cluster_address(to, threadIdx.x), bytes,
                               ptx::cluster_address(received, threadIdx.x));
    }
    ptx::mbarrier_wait_cluster(received, calls_ / 2 % 2);
    if (threadIdx.x == 0) expect(received);  // the messages of the call after the next
    ++calls_;
    return storage_.of_block[stage];
  }

  __device__ static void expect(ptx::Mbarrier* received) {
    ptx::mbarrier_arrive_expect_tx(received, kBlocks * sizeof(float4));
  }

  Storage& storage_;
  unsigned calls_ = 0;
};

}  // namespace ladder
