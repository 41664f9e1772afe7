// Idea      the right kernel for every shape, by v10d's rule: v32's kernels, v33's and v34's
// Vs v34    v33's kernel where a warp's lanes would have no work, and v34's only where the SMs would
//           have none; everywhere else v32, which reads what it holds once
// Bound by  DRAM bandwidth
// Limits    v32's; of few long rows relies on ascending dispatch
// Tile      v10d's, with v32 for v10
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "launchers.hpp"

namespace softmax_rows {
namespace {

template <class Op>
struct BackwardByShape {
  static constexpr ladder::Version version{"short rows, few long ones, and the others by length"};
  // Both of the kernels that are not v32's.
  static constexpr softmax::Problem test_problems[] = {{2050, 8}, {300, 50}, {1, 600'001}};

  template <class T>
  static std::size_t workspace(const softmax_gradient::Args<T>& a) {
    return ladder::is_split_faster<T>(a.rows, a.cols) ? workspace_of_backward_split_rows(a) : 0;
  }
  template <class T>
  static std::size_t state(const softmax_gradient::Args<T>& a) {
    return ladder::may_be_split_faster<T>(a.rows, a.cols) ? ladder::state_of_split(a.rows, a.cols)
                                                          : 0;
  }
  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, void* state, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_backward_short_rows<Op>(a, stream);
    if (ladder::is_split_faster<T>(a.rows, a.cols)) {
      return launch_backward_split_rows<Op>(a, state, stream);
    }
    launch_backward_by_length<Op>(a, stream);
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardByShape<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace
}  // namespace softmax_rows
