// Idea      the right kernel for every length
// Vs v08    v07's kernel for rows that a block can hold
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 262144 elements is read twice
// Tile      by the elements of a row:
//             up to   1024   a warp, four rows to a block of 128 threads
//             up to  32768   a block of 128 to 1024 threads
//             up to 262144   a cluster of 4 or 8 blocks of 512 threads, then of 8 blocks of 1024
//             more           the same, and what is not held is read again
#include "cluster_row.hpp"

namespace {

struct ByLength {
  static constexpr ladder::Version version{"a warp, a block or a cluster, by the row's length"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    using namespace softmax_rows;
    a.cols <= kLongestForward ? launch_forward<false, Mask::none>(a, stream)
                              : launch_cluster_forward<false, Mask::none>(a, stream);
  }
};

const ladder::Register<ByLength, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
