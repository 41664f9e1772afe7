// Idea      the right kernel for every shape: a dispatcher, to the kernels of v10, v11 and v12
// Vs v12    v11's kernel where a warp's lanes would have no work, the rows being short, and v12's
//           only where the clusters would have few rows each, or SMs none, the rows being few and
//           long; everywhere else v10, which holds a row and so reads it once
// Bound by  DRAM bandwidth
// Limits    v10's
// Tile      v11's for rows of up to 512 bytes; v12's for those of 1 MiB and more if they are at
//           most half as many as the SMs, on an H100 66 rows; v10's
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

struct ByShape {
  static constexpr ladder::Version version{"short rows, few long ones, and the others by length"};
  // Both of the kernels that are not v10's.
  static constexpr layernorm::Problem test_problems[] = {{2050, 8}, {300, 50}, {1, 600'001}};

  template <class T>
  static std::size_t workspace(const layernorm::Args<T>& a) {
    return ladder::is_split_faster<T>(a.rows, a.cols) ? workspace_of_split_rows<layernorm>(a) : 0;
  }
  template <class T>
  static std::size_t state(const layernorm::Args<T>& a) {
    if (ladder::may_be_split_faster<T>(a.rows, a.cols)) {
      return max(ladder::state_of_split(a.rows, a.cols), sizeof(ladder::RowCounters));
    }
    return state_of_rows_ahead<layernorm>(a);
  }
  template <class T>
  static void launch(const layernorm::Args<T>& a, void* state, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_short_rows<layernorm>(a, stream);
    if (ladder::is_split_faster<T>(a.rows, a.cols)) {
      return launch_split_rows<layernorm>(a, state, stream);
    }
    launch_rows_ahead<layernorm>(a, state, stream);
  }
};

const ladder::Register<ByShape, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace row_norm
