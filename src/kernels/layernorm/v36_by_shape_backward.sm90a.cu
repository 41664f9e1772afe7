// Idea      the right kernel for every shape: a dispatcher, to the kernels of v35, v35b and v34
// Vs v35b   v35b's kernel only where no cluster holds a row, so that x and dy are read twice anyway, and
//           v35's where a warp's lanes would have no work; everywhere else v34's, which reads them once
// Bound by  DRAM bandwidth, and for small matrices by the end
// Limits    v34's
// Tile      v35's for rows of up to 512 bytes, but of fewer than 256 elements; v35b's for those of more
//           than 65536 elements, in 16 bits 97280, unless they are more than 16384; v34's for the others
#include "device/in_step.hpp"
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/held_ahead.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

struct ByShapeBackward {
  static constexpr ladder::Version version{"short rows, very long ones, and the others by length"};
  // Both of the kernels that are not v34's.
  static constexpr layernorm::Problem test_problems[] = {{2050, 8}, {300, 50}, {9, 98'305}};

  template <class T>
  static bool is_short(int cols) {
    return cols <= ladder::kLongestShortRow<T> && cols < kShortestAhead;
  }
  template <class T>
  static bool is_split(int rows, int cols) {
    return cols >= kShortestAhead && !is_held_ahead<T>(cols) && rows <= ladder::kMostSplitRows;
  }
  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    if (is_short<T>(a.cols)) return workspace_of_short_rows_backward<layernorm_backward>(a);
    if (is_split<T>(a.rows, a.cols)) return workspace_of_split_rows_backward<layernorm_backward>(a);
    return workspace_of_rows_ahead_backward<layernorm_backward>(a);
  }
  template <class T>
  static std::size_t state(const layernorm_backward::Args<T>& a) {
    if (is_short<T>(a.cols)) return 0;
    if (is_split<T>(a.rows, a.cols)) return state_of_split_rows_backward<layernorm_backward>(a);
    return sizeof(ladder::StepCounters);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, void* state, cudaStream_t stream) {
    if (is_short<T>(a.cols)) return launch_short_rows_backward<layernorm_backward>(a, stream);
    if (is_split<T>(a.rows, a.cols)) {
      return launch_split_rows_backward<layernorm_backward>(a, state, stream);
    }
    launch_rows_ahead_backward<layernorm_backward>(a, state, stream);
  }
};

const ladder::Register<ByShapeBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace row_norm
