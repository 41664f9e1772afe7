// Idea      the second launch, which adds the blocks' sums, begins while the first one runs (programmatic
//           dependent launch): its blocks take the place of those that end, and wait for the last
// Vs v34    the same kernels; but when the last block has ended, the second launch needs no time to begin
// Bound by  DRAM bandwidth, and for small matrices by the end: the teams' sums, and their trip through the L2
// Limits    v34's
// Tile      v34's
#include "launchers.hpp"

namespace rmsnorm_rows {
namespace {

struct OverlappedEndBackward {
  static constexpr ladder::Version version{"the second launch begins while the first one runs"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return workspace_of_rows_ahead_backward(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    launch_rows_ahead_backward(a, stream, {.overlapping = true});
  }
};

const ladder::Register<OverlappedEndBackward, rmsnorm_backward, float, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace rmsnorm_rows
