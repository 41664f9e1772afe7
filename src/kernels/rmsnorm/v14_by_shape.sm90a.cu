// Idea      the right kernel for every shape: a dispatcher, to the kernels of v11, in 16 bits v10,
//           v12 and v13
// Vs v13    v12's kernel where a warp's lanes would have no work, the rows being short, and v13's
//           only where the clusters would have few rows each, or SMs none, the rows being few and
//           long; everywhere else v11, which holds a row and so reads it once
// Bound by  DRAM bandwidth
// Limits    v11's
// Tile      v12's for rows of up to 512 bytes; v13's for those of 1 MiB and more if they are at
//           most half as many as the SMs, on an H100 66 rows; v11's
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "launchers.hpp"

namespace rmsnorm_rows {
namespace {

struct ByShape {
  static constexpr ladder::Version version{"short rows, few long ones, and the others by length"};
  // Both of the kernels that are not v11's.
  static constexpr rmsnorm::Problem test_problems[] = {{2050, 8}, {300, 50}, {1, 600'001}};

  template <class T>
  static std::size_t workspace(const rmsnorm::Args<T>& a) {
    return ladder::is_split_faster<T>(a.rows, a.cols) ? workspace_of_split_rows(a) : 0;
  }
  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    if (a.cols <= ladder::kLongestShortRow<T>) return launch_short_rows(a, stream);
    if (ladder::is_split_faster<T>(a.rows, a.cols)) return launch_split_rows(a, stream);
    if constexpr (std::is_same_v<T, float>) {
      launch_parked_weights(a, stream);
    } else {
      launch_rows_ahead(a, stream);
    }
  }
};

const ladder::Register<ByShape, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
}  // namespace rmsnorm_rows
