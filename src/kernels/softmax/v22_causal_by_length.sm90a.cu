// Idea      a warp, a block or a cluster per row, by its length
// Vs v21    rows of more than 32768 elements are held by a cluster, and read once: at 1024x131072
//           on an H200 1.44 times as fast in fp32, 1 % slower in 16-bit types
// Bound by  DRAM bandwidth
// Limits    compute capability 9.0; matrices start at multiples of 32 bytes. What of a row is
//           beyond 262144 elements is read twice
// Tile      a warp up to 1024 elements, a block up to 32768, then v08's clusters: by the row's
//           whole length and not by what of it is seen, because it is written whole
#include "cluster_row.hpp"

namespace {

struct CausalByLength {
  static constexpr ladder::Version version{"a warp, a block or a cluster, by the row's length"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    using namespace softmax_rows;
    a.cols <= kLongestForward ? launch_forward<false, Mask::skipped>(a, stream)
                              : launch_cluster_forward<false, Mask::skipped>(a, stream);
  }
};

const ladder::Register<CausalByLength, causal_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace
