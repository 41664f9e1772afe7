// Idea      softmax as in v07, in which the elements that a row must not see become -inf once they
//           are loaded
// Vs v07    two instructions per element to mask it, and two to write zeros
// Bound by  DRAM bandwidth: all of x is read, of a square matrix twice as much as counts
// Limits    as v07's: matrices start at multiples of 32 bytes; what of a row is beyond 32768
//           elements is read twice
// Tile      v07's, and so is the kernel: forward_row.hpp
#include "forward_row.hpp"

namespace {

struct CausalMasked {
  static constexpr ladder::Version version{"reads every element, and masks"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_forward<false, softmax_rows::Mask::applied>(a, stream);
  }
};

const ladder::Register<CausalMasked, causal_softmax, float> registration;

}  // namespace
