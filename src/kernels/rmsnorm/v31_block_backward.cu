// Idea      a block per row makes dx, its threads' sums meet by shuffles; in a second launch a block
//           per 32 columns makes dweight, a warp per row and a lane per column
// Vs v30    256 threads work on a row or on 32 columns, and neighbours read neighbouring elements
// Bound by  DRAM bandwidth: 5n, for both launches read x and dy; where the columns are few, by the
//           latency of the second one, which has a block per 32 of them
// Limits    none
#include "kernels/layernorm/backward_block.hpp"
#include "rmsnorm.hpp"

namespace {

struct BlockBackward {
  static constexpr ladder::Version version{"a block per row, then a block per 32 columns"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return layernorm_rows::workspace_of_two_kernels<rmsnorm_backward, T>(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_two_kernels<rmsnorm_backward, T>(a, stream);
  }
};

const ladder::Register<BlockBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_two_kernels<rmsnorm_backward>(const rmsnorm_backward::Args<float>&,
                                                   cudaStream_t);
template void launch_two_kernels<rmsnorm_backward>(const rmsnorm_backward::Args<ladder::half>&,
                                                   cudaStream_t);
template void launch_two_kernels<rmsnorm_backward>(const rmsnorm_backward::Args<ladder::bfloat16>&,
                                                   cudaStream_t);
}  // namespace layernorm_rows
