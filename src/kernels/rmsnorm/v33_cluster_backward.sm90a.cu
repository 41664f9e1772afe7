// Idea      longer rows than a block holds are held by clusters of 2, 4 or 8 blocks, whose blocks
//           read each other's sums from shared memory; and so the rule for any length is: v32, these
//           clusters, and beyond 65536 elements v31
// Vs v32    rows of 8193 to 65536 elements are read once, where v31 reads them twice
// Bound by  DRAM bandwidth; while a cluster waits for its sums nothing else runs on its
//           multiprocessors
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes. Where the columns are no multiple of
//           the vector, each "vector" is one element.
// Tile      as v32, a row per cluster of blocks of 512 threads, 16 elements in a thread
#include "kernels/layernorm/backward_cluster.hpp"
#include "rmsnorm.hpp"

namespace layernorm_rows {
// Compiled in v31.
extern template void launch_two_kernels<rmsnorm_backward>(const rmsnorm_backward::Args<float>&,
                                                          cudaStream_t);
extern template void launch_two_kernels<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
extern template void launch_two_kernels<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::bfloat16>&, cudaStream_t);
// Compiled in v32.
extern template void launch_persistent<rmsnorm_backward>(const rmsnorm_backward::Args<float>&,
                                                         cudaStream_t);
extern template void launch_persistent<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
extern template void launch_persistent<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace layernorm_rows

namespace {

struct ClusterBackward {
  static constexpr ladder::Version version{"long rows held by clusters of blocks"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return layernorm_rows::workspace_on_hopper<rmsnorm_backward, T>(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_backward_on_hopper<rmsnorm_backward, T>(a, stream);
  }
};

const ladder::Register<ClusterBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_backward_on_hopper<rmsnorm_backward>(const rmsnorm_backward::Args<float>&,
                                                          cudaStream_t);
template void launch_backward_on_hopper<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
template void launch_backward_on_hopper<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace layernorm_rows
