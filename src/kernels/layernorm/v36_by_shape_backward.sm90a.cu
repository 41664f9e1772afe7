// Idea      the right kernel for every shape: a dispatcher, to the kernels of v35 and v34
// Vs v35    longer rows than a warp's lanes hold, for which a warp, a block or a cluster has work
// Bound by  DRAM bandwidth, and for small matrices by the end
// Limits    v34's
// Tile      v35's for rows of up to 512 bytes, v34's for longer ones
#include "device/short_rows.hpp"
#include "launchers.hpp"

namespace layernorm_rows {
namespace {

struct ByShapeBackward {
  static constexpr ladder::Version version{"short rows, and the others by length"};
  static constexpr layernorm::Problem test_problems[] = {{2050, 8}, {300, 50}};  // v35's

  template <class T>
  static std::size_t workspace(const layernorm_backward::Args<T>& a) {
    return a.cols <= ladder::kLongestShortRow<T> ? workspace_of_short_rows_backward(a)
                                                 : workspace_of_rows_ahead_backward(a);
  }
  template <class T>
  static void launch(const layernorm_backward::Args<T>& a, cudaStream_t stream) {
    a.cols <= ladder::kLongestShortRow<T> ? launch_short_rows_backward(a, stream)
                                          : launch_rows_ahead_backward(a, stream);
  }
};

const ladder::Register<ByShapeBackward, layernorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
}  // namespace layernorm_rows
