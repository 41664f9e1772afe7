// Idea      clusters stay and take row after row, and the copy engine brings the next rows to
//           shared memory while one is summed up and stored
// Vs v08    while a cluster waits for its sums, and while it stores, more is on its way from DRAM:
//           bytes in flight are no longer in the registers that wait. The blocks push their sums to
//           each other: a barrier of the cluster would wait for the stores of the row before. Which
//           rows are a cluster's is not settled beforehand: with equal parts the fastest would
//           wait for the slowest
// Bound by  DRAM bandwidth; of 132 multiprocessors some are left over, because the blocks of a
//           cluster are neighbours
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes; rows of up to 131072
//           elements, the registers of eight blocks; no two launches may overlap
// Tile      a row is shared by 1, 2, 4 or 8 blocks of 512 threads, 32 elements of it in each
//           thread; up to 3 rows on their way: device/row_share.hpp
#include "ahead_row.hpp"

namespace {

struct RowsAhead {
  static constexpr ladder::Version version{"rows on their way before they are needed"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_ahead<false>(a, stream);
  }
  template <class T>
  static ladder::Support supports(const softmax::Problem& p) {
    if (softmax_rows::ahead_plan<T>(p.cols).blocks > 0) return ladder::supported();
    return ladder::unsupported(
        "rows of more than 131072 elements do not fit a cluster's registers");
  }
};

const ladder::Register<RowsAhead, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace softmax_rows {
// Other versions call it too.
template void launch_ahead<false>(const softmax::Args<float>&, cudaStream_t);
template void launch_ahead<false>(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_ahead<false>(const softmax::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace softmax_rows
