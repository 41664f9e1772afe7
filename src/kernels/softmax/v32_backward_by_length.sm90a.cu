// Idea      a warp, a block or a cluster per row, by its length
// Vs v31    long rows are held by a cluster, and read once; but for twice as long as a block holds,
//           in 16 bits four times, it is faster on an H100 to read a part twice, mostly from the
//           L2. On an H200 so it is in 16 bits at 1024x131072, where log_backward by v31 is 1.37
//           times as fast
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 131072 elements is read twice
// Tile      16 elements of each input per thread; by the elements of a row:
//             up to    512   a warp, four rows to a block of 128 threads
//             up to  32768   a block of 128 to 1024 threads; of 16 bits up to 65536
//             up to 131072   a cluster of 8 blocks of 512 threads, then of 8 blocks of 1024
//             more           the same, and what is not held is read again
#include "cluster_row.hpp"

namespace {

template <class Op>
struct BackwardByLength {
  static constexpr ladder::Version version{"a warp, a block or a cluster, by the row's length"};

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    using namespace softmax_rows;
    a.cols <= kLongestBackwardOfBlock<T> ? launch_backward<Op>(a, stream)
                                         : launch_cluster_backward<Op>(a, stream);
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardByLength<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace
