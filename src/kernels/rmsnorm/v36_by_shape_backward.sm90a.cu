// Idea      the right kernel for every shape, as LayerNorm's v36: a dispatcher, to the kernels of
//           its v35 (several short rows in a warp), v35b (the whole GPU on a row) and v34 (rows on
//           their way before they are needed), with no mean and no bias
// Vs v32    rows of any length; copies of the next rows are in flight at all times, where v32 loads
//           a row, waits for it and for two sums, and only then loads the next
// Bound by  DRAM bandwidth, and for small matrices by the end
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes
// Tile      as LayerNorm's v36
#include "device/in_step.hpp"
#include "device/short_rows.hpp"
#include "device/split_rows.hpp"
#include "kernels/row_norm/held_ahead.hpp"
#include "kernels/row_norm/launchers.hpp"

namespace row_norm {
namespace {

struct ByShapeBackward {
  static constexpr ladder::Version version{"short rows, very long ones, and the others by length"};
  // Of short rows several tiles, the last of them cut off, for each number of lanes, and rows that
  // are no whole vectors; rows that the GPU shares; of the others so many that stages are used
  // again: of a warp, of teams, of a block and of a cluster.
  static constexpr rmsnorm::Problem test_problems[] = {
      {2050, 8},   {1030, 3},   {700, 12},  {600, 24},  {300, 50},  {200, 100}, {100, 128},
      {9, 98'305}, {9, 98'312}, {402, 264}, {203, 400}, {2, 400},   {140, 333}, {140, 457},
      {101, 608},  {140, 601},  {70, 1008}, {35, 1006}, {35, 1303}, {17, 2600}, {17, 3001},
      {9, 5001},   {9, 8000},   {5, 9002},  {2, 14001}, {5, 16390}, {2, 16376}, {2, 30001},
      {1, 32000},  {2, 34000},  {2, 38001}, {1, 60001}, {1, 60000}, {1, 90000}};

  template <class T>
  static bool is_short(int cols) {
    return cols <= ladder::kLongestShortRow<T> && cols < kShortestAhead;
  }
  template <class T>
  static bool is_split(int rows, int cols) {
    return cols >= kShortestAhead && !is_held_ahead<T>(cols) && rows <= ladder::kMostSplitRows;
  }
  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    if (is_short<T>(a.cols)) return workspace_of_short_rows_backward<rmsnorm_backward>(a);
    if (is_split<T>(a.rows, a.cols)) return workspace_of_split_rows_backward<rmsnorm_backward>(a);
    return workspace_of_rows_ahead_backward<rmsnorm_backward>(a);
  }
  template <class T>
  static std::size_t state(const rmsnorm_backward::Args<T>& a) {
    if (is_short<T>(a.cols)) return 0;
    if (is_split<T>(a.rows, a.cols)) return state_of_split_rows_backward<rmsnorm_backward>(a);
    return sizeof(ladder::StepCounters);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, void* state, cudaStream_t stream) {
    if (is_short<T>(a.cols)) return launch_short_rows_backward<rmsnorm_backward>(a, stream);
    if (is_split<T>(a.rows, a.cols))
      return launch_split_rows_backward<rmsnorm_backward>(a, state, stream);
    launch_rows_ahead_backward<rmsnorm_backward>(a, state, stream);
  }
};

const ladder::Register<ByShapeBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace row_norm
