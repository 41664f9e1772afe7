// Idea      rows that are too long for the registers of one block are held by a cluster of 2, 4 or
//           8, whose blocks read each other's sums from shared memory; and so the rule for any
//           length is: the smallest team of threads that holds the row, 128 bytes in each, from 16
//           lanes to 8 blocks
// Vs v08    rows of up to 1 MiB are read once, where v08 reads what is beyond 128 KiB twice
// Bound by  DRAM bandwidth; while a cluster waits for its sums nothing else runs on its
//           multiprocessors
// Limits    Hopper. x and y start at multiples of 16 bytes. What of a row is beyond 1 MiB is read
//           twice.
// Tile      as v07
#include "kernels/layernorm/normalize_cluster.hpp"
#include "rmsnorm.hpp"

namespace layernorm_rows {
// Compiled in v08.
extern template void launch_normalize<rmsnorm, Weights::prefetched>(const rmsnorm::Args<float>&,
                                                                    cudaStream_t);
extern template void launch_normalize<rmsnorm, Weights::prefetched>(
    const rmsnorm::Args<ladder::half>&, cudaStream_t);
extern template void launch_normalize<rmsnorm, Weights::prefetched>(
    const rmsnorm::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace layernorm_rows

namespace {

struct Cluster {
  static constexpr ladder::Version version{"long rows held by clusters of blocks"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_normalize_on_hopper<rmsnorm>(a, stream);
  }
};

const ladder::Register<Cluster, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_normalize_on_hopper<rmsnorm>(const rmsnorm::Args<float>&, cudaStream_t);
template void launch_normalize_on_hopper<rmsnorm>(const rmsnorm::Args<ladder::half>&, cudaStream_t);
template void launch_normalize_on_hopper<rmsnorm>(const rmsnorm::Args<ladder::bfloat16>&,
                                                  cudaStream_t);
}  // namespace layernorm_rows
