// Idea      persistent blocks, which read x and dy once: as LayerNorm's v32, whose kernel this is,
//           with no mean and no bias
// Vs v30    as many blocks as run at once take row after row and hold it in registers, with
//           accumulators of their columns' dweight; a second launch adds the blocks' partial sums
// Bound by  DRAM bandwidth; the accumulators' registers leave room for 512 threads on an SM
// Limits    x, dy and dx start at multiples of 16 bytes. Rows of more than 8192 elements, as many as
//           512 threads hold, are LayerNorm's v31's: a block makes a row's dx, and then one dweight
//           of 32 columns, for which x and dy are read twice
// Tile      as LayerNorm's v32
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

struct PersistentBackward {
  static constexpr ladder::Version version{"rows and columns in one pass, persistent blocks"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    if (a.cols > kLongestPersistent) return workspace_of_block_backward<rmsnorm_backward>(a);
    return workspace_of_persistent_backward<rmsnorm_backward>(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    if (a.cols > kLongestPersistent) return launch_block_backward<rmsnorm_backward>(a, stream);
    launch_persistent_backward<rmsnorm_backward>(a, stream);
  }
};

const ladder::Register<PersistentBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace row_norm
