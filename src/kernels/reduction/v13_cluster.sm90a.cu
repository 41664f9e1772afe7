// Idea      the eight blocks of a cluster combine their results through distributed shared memory
// Vs v10    a ticket and a partial result per cluster instead of per block: the last one has an
//           eighth to read; up to 32 tiles nothing goes through global memory at all. But eight
//           blocks start together and wait for each other, during which they load nothing
// Bound by  DRAM bandwidth; at small n by one launch, one trip to DRAM, and three to the L2 cache
// Limits    Hopper only. x starts at a multiple of 16 bytes.
// Tile      16 KiB of x, 256 threads
#include "block_reduce.hpp"
#include "device/ptx/cluster.hpp"
#include "passes.hpp"

namespace {

using namespace ladder::ptx;

constexpr int kBlock = 256;
constexpr int kWarps = kBlock / 32;
constexpr int kCluster = 8;  // blocks

/// Combines the values of the cluster's threads, by way of of_warp in every block's shared memory,
/// aligned to 16 bytes; thread 0 of rank 0 returns the result.
template <class Op>
__device__ float cluster_reduce(float mine, float (&of_warp)[kWarps]) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  mine = reduction::warp_reduce<Op>(mine);
  if (lane == 0) of_warp[warp] = mine;
  cluster_sync();
  if (cluster_rank() == 0 && warp == 0) {  // a lane loads the results of four warps
    constexpr unsigned kLanesPerBlock = kWarps / 4;
    static_assert(kCluster * kLanesPerBlock <= 32);
    mine = Op::template identity<float>();
    if (lane < kCluster * kLanesPerBlock) {
      const float* const four = &of_warp[4 * (lane % kLanesPerBlock)];
      const float4 v = cluster_load(cluster_address(four, lane / kLanesPerBlock));
      mine = Op::combine(Op::combine(v.x, v.y), Op::combine(v.z, v.w));
    }
    mine = reduction::warp_reduce<Op>(mine);
  }
  cluster_sync();  // no block ends before it has been read
  return mine;
}

template <class Op, class T>
__global__ void __launch_bounds__(kBlock) __cluster_dims__(kCluster)
    by_clusters(reduction::Args<Op, T> a, unsigned* clusters_done) {
  alignas(16) __shared__ float of_warp[kWarps];
  __shared__ float of_last_warp[kWarps];
  const float mine = reduction::thread_reduce<Op, kBlock>(a.x, a.n, blockIdx.x, gridDim.x);
  float total = cluster_reduce<Op>(mine, of_warp);
  if (cluster_rank() != 0) return;
  const unsigned clusters = gridDim.x / kCluster;
  if (clusters > 1) {
    float* const partials = static_cast<float*>(a.workspace);  // [clusters]
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      partials[blockIdx.x / kCluster] = total;
      __threadfence();  // whoever sees the count sees the partial result
      is_last = atomicInc(clusters_done, clusters - 1) == clusters - 1;
      if (is_last) __threadfence();  // this block, having seen the count, sees the partial results
    }
    __syncthreads();
    if (!is_last) return;
    const float found = reduction::thread_reduce<Op, kBlock>(partials, clusters, 0, 1);
    total = reduction::block_reduce<Op>(found, of_last_warp);
  }
  if (threadIdx.x == 0) *a.y = total;
}

struct Cluster {
  static constexpr ladder::Version version{"clusters of 8 blocks reduce in shared memory"};

  template <class T>
  static std::int64_t clusters(std::int64_t n) {
    return ladder::ceil_div(reduction::blocks_for(n, reduction::kTile<T, kBlock>), kCluster);
  }
  template <class Op, class T>
  static std::size_t workspace(const reduction::Args<Op, T>& a) {
    return static_cast<std::size_t>(clusters<T>(a.n)) * sizeof(float);
  }
  template <class Op, class T>
  static std::size_t state(const reduction::Args<Op, T>& a) {
    return clusters<T>(a.n) > 1 ? sizeof(unsigned) : 0;
  }
  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, void* state, cudaStream_t stream) {
    ladder::launch(by_clusters<Op, T>, kCluster * clusters<T>(a.n), kBlock, 0, stream, a, state);
  }
};

const ladder::Register<Cluster, reduction::sum, float> sum;

}  // namespace
