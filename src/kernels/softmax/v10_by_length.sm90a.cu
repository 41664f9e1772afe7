// Idea      the right kernel for every length: a dispatcher, to the kernels of v07, v08 and v09
// Vs v09    v07's kernel for short rows, of which several blocks on an SM keep DRAM busy as well,
//           and v08's for those that v09 does not hold. The lengths are an H100's; on an H200
//           16-bit rows of 50257 elements are 8 to 9 % faster by v07
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 262144 elements is read twice
// Tile      by the elements of a row:
//             up to   1024   a warp or half a warp, four or eight rows to a block of 128 threads
//             up to  32768   a block of 128 to 1024 threads
//             up to 131072   rows ahead, in clusters of 2, 4 or 8 blocks of 512 threads
//             up to 262144   a cluster of 8 blocks of 1024 threads
//             more           the same, and what is not held is read again
#include "ahead.hpp"
#include "launchers.hpp"

namespace softmax_rows {
namespace {

struct ByLength {
  static constexpr ladder::Version version{"a warp, a block or rows ahead, by the row's length"};

  template <class T>
  static std::size_t state(const softmax::Args<T>& a) {
    return state_of_by_length(a);
  }
  template <class T>
  static void launch(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
    launch_by_length(a, state, stream);
  }
};

const ladder::Register<ByLength, softmax, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

template <class T>
std::size_t state_of_by_length(const softmax::Args<T>& a) {
  const bool is_ahead = a.cols > kLongestOfBlock && ahead_plan<T>(a.cols).blocks > 0;
  return is_ahead ? sizeof(ladder::RowCounters) : 0;
}
template <class T>
void launch_by_length(const softmax::Args<T>& a, void* state, cudaStream_t stream) {
  if (a.cols <= kLongestOfBlock) return launch_unaligned(a, stream);  // v07
  if (ahead_plan<T>(a.cols).blocks > 0) {
    return launch_ahead(a, state, stream);  // v09
  }
  launch_cluster(a, stream);  // v08
}

// Other versions call it too.
template std::size_t state_of_by_length(const softmax::Args<float>&);
template std::size_t state_of_by_length(const softmax::Args<ladder::half>&);
template std::size_t state_of_by_length(const softmax::Args<ladder::bfloat16>&);
template void launch_by_length(const softmax::Args<float>&, void*, cudaStream_t);
template void launch_by_length(const softmax::Args<ladder::half>&, void*, cudaStream_t);
template void launch_by_length(const softmax::Args<ladder::bfloat16>&, void*, cudaStream_t);

}  // namespace softmax_rows
