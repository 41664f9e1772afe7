// Idea      the right kernel for every shape, as LayerNorm's v13: a dispatcher, to v11, in 16 bits to
//           LayerNorm's v10, and to its v11 and v12, with one sum less and no bias
// Vs v11    several short rows in a warp, whose lanes would have no work, and the whole GPU on a row where
//           the clusters would have few rows each, or SMs none, the rows being few and long; in 16 bits
//           long rows are on their way before they are needed
// Bound by  DRAM bandwidth
// Limits    Hopper. x and y start at multiples of 16 bytes. Relies on ascending dispatch
// Tile      LayerNorm's v11's for rows of up to 512 bytes; its v12's for those of 1 MiB and more if they
//           are at most half as many as the SMs, on an H100 66 rows; v11's, and its v10's
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

struct ByShape {
  static constexpr ladder::Version version{"short rows, few long ones, and the others by length"};
  // Short rows: several tiles, the last of them cut off, for each number of lanes, and rows that are no
  // whole vectors. Then rows of the whole GPU, with single elements and without.
  static constexpr rmsnorm::Problem test_problems[] = {{2050, 8},  {1030, 3},    {700, 12},
                                                       {600, 24},  {300, 50},    {200, 100},
                                                       {100, 128}, {1, 600'001}, {1, 524'288}};

  template <class T>
  static std::size_t workspace(const rmsnorm::Args<T>& a) {
    return ladder::is_split_faster<T>(a.rows, a.cols) ? workspace_of_split_rows<rmsnorm>(a) : 0;
  }
  template <class T>
  static std::size_t state(const rmsnorm::Args<T>& a) {
    if (ladder::may_be_split_faster<T>(a.rows, a.cols)) {
      return max(ladder::state_of_split(a.rows, a.cols), sizeof(ladder::RowCounters));
    }
    return state_of_rows_ahead<rmsnorm>(a);
  }
  template <class T>
  static void launch(const rmsnorm::Args<T>& a, void* state, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_short_rows<rmsnorm>(a, stream);
    if (ladder::is_split_faster<T>(a.rows, a.cols)) {
      return launch_split_rows<rmsnorm>(a, state, stream);
    }
    if constexpr (std::is_same_v<T, float>) {
      launch_parked_weights(a, state, stream);
    } else {
      launch_rows_ahead<rmsnorm>(a, state, stream);
    }
  }
};

const ladder::Register<ByShape, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace row_norm
