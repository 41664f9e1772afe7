// Idea      a warp, a block or rows ahead, by v10's rule
// Vs v12    long rows are on their way before they are needed, and held by a cluster, so that they
//           are read once
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 262144 elements is read twice. No two launches may overlap
// Tile      v10's
#include "ahead_row.hpp"

namespace {

struct LogByLength {
  static constexpr ladder::Version version{"a warp, a block or rows ahead, by the row's length"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_by_length<true>(a, stream);
  }
};

const ladder::Register<LogByLength, log_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
