// Idea      vectors of which a row sees nothing are not loaded
// Vs v20    of a square matrix half of x is read: 3/4 of the traffic
// Bound by  DRAM bandwidth
// Limits    as v07's: matrices start at multiples of 32 bytes; what of a row is beyond 32768
//           elements is read twice
// Tile      v07's, and so is the kernel: forward_row.hpp. Short rows have as many threads as long
//           ones, because they write as much
#include "forward_row.hpp"

namespace {

struct CausalSkipped {
  static constexpr ladder::Version version{"reads what is seen only"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_forward<false, softmax_rows::Mask::skipped>(a, stream);
  }
};

const ladder::Register<CausalSkipped, causal_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

namespace softmax_rows {
// Other versions call it too.
template void launch_forward<false, Mask::skipped>(const softmax::Args<float>&, cudaStream_t);
template void launch_forward<false, Mask::skipped>(const softmax::Args<ladder::half>&,
                                                   cudaStream_t);
template void launch_forward<false, Mask::skipped>(const softmax::Args<ladder::bfloat16>&,
                                                   cudaStream_t);
}  // namespace softmax_rows
