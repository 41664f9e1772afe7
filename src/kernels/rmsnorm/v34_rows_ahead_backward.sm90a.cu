// Idea      the copy engine brings the next rows of x and dy to shared memory while one is summed
//           up and stored, and all sums of a row meet at once
// Vs v33    bytes are on their way at all times, where v33 asked for a row, waited for it, for the
//           mean of its squares and another sum, and asked again. The sum of g * z is made without
//           the scale, a factor of all its terms, so that both sums meet at once. Short rows belong
//           to teams of a block that never wait for each other; in v32 they are several blocks,
//           each of which leaves sums to be added
// Bound by  DRAM bandwidth, and for small matrices by the end: the teams' sums, the second launch
// Limits    Hopper. x, dy and dx start at multiples of 16 bytes. Rows of fewer than 512 elements,
//           and those that 8 blocks do not hold, are v33's. Where the columns are no multiple of
//           the vector, threads take single elements out of shared memory
// Tile      16 elements in a thread: a row per team of 64 to 512 threads of a block of 512, or per
//           cluster of 2, 4 or 8 such blocks; of each three or four rows in shared memory
#include "kernels/layernorm/backward_ahead.hpp"
#include "rmsnorm.hpp"

namespace layernorm_rows {
// Compiled in v33.
extern template void launch_backward_on_hopper<rmsnorm_backward>(
    const rmsnorm_backward::Args<float>&, cudaStream_t);
extern template void launch_backward_on_hopper<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::half>&, cudaStream_t);
extern template void launch_backward_on_hopper<rmsnorm_backward>(
    const rmsnorm_backward::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace layernorm_rows

namespace {

struct RowsAheadBackward {
  static constexpr ladder::Version version{"rows on their way before they are needed"};

  template <class T>
  static std::size_t workspace(const rmsnorm_backward::Args<T>& a) {
    return layernorm_rows::workspace_ahead<rmsnorm_backward, T>(a);
  }
  template <class T>
  static void launch(const rmsnorm_backward::Args<T>& a, cudaStream_t stream) {
    layernorm_rows::launch_backward_ahead<rmsnorm_backward, T>(a, stream);
  }
};

const ladder::Register<RowsAheadBackward, rmsnorm_backward, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
