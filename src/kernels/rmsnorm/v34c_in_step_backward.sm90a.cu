// Idea      no SM gets ahead of the others: one that is waits before it asks for another row
// Vs v34b   the same kernels; but the memory's bandwidth is shared equally, so that all blocks end
//           together. Before, some SMs were done long before the others, and at the end too few were
//           left to keep the DRAM busy
// Bound by  DRAM bandwidth, and for small matrices by the end
// Limits    v34's. Launches that overlap count together, and are slower
// Tile      v34's
#include "launchers.hpp"

namespace rmsnorm_rows {
namespace {

struct InStepBackward {
  static constexpr ladder::Version version{"no SM gets ahead of the others"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return workspace_of_rows_ahead_backward(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    launch_rows_ahead_backward(a, stream, {.overlapping = true, .in_step = true});
  }
};

const ladder::Register<InStepBackward, rmsnorm_backward, float, ladder::bfloat16> registration;

}  // namespace
}  // namespace rmsnorm_rows
