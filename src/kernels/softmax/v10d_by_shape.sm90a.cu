// Idea      the right kernel for every shape: a dispatcher, to v10's kernels, v10b's and v10c's
// Vs v10c   v10b's kernel where a warp's lanes would have no work, the rows being short, and v10c's
//           where the clusters would have few rows each, or SMs none, the rows being few and long;
//           everywhere else v10, which holds a row and so reads it once
// Bound by  DRAM bandwidth
// Limits    v10's; of few long rows relies on ascending dispatch
// Tile      v10b's for rows of up to 512 bytes; v10c's for those of 1 MiB and more if they are at
//           most half as many as the SMs, on an H100 66 rows; v10's
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "launchers.hpp"

namespace softmax_rows {
namespace {

struct ByShape {
  static constexpr ladder::Version version{"short rows, few long ones, and the others by length"};
  // Both of the kernels that are not v10's.
  static constexpr softmax::Problem test_problems[] = {{2050, 8}, {300, 50}, {1, 600'001}};

  template <class T>
  static std::size_t workspace(const softmax::Args<T>& a) {
    return ladder::is_split_faster<T>(a.rows, a.cols) ? workspace_of_split_rows(a) : 0;
  }
  template <class T>
  static std::size_t state(const softmax::Args<T>& a) {
    if (ladder::may_be_split_faster<T>(a.rows, a.cols)) {
      return max(ladder::state_of_split(a.rows, a.cols), state_of_by_length(a));
    }
    return state_of_by_length(a);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_short_rows<softmax>(a, stream);
    if (ladder::is_split_faster<T>(a.rows, a.cols)) {
      return launch_split_rows<softmax>(a, state, stream);
    }
    launch_by_length(a, state, stream);
  }
};

const ladder::Register<ByShape, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace softmax_rows
