// Idea      the row in registers, as in v07; they keep x itself, of which the result is a
//           difference
// Vs v11    x is read once, in 128-bit vectors, and its exponentials by the hardware's ex2
// Bound by  DRAM bandwidth
// Limits    as v07's: matrices start at multiples of 32 bytes; what of a row is beyond 32768
//           elements is read twice
// Tile      v07's, and so is the kernel: forward_row.hpp
#include "forward_row.hpp"

namespace {

struct LogRegisters {
  static constexpr ladder::Version version{"128-bit vectors, the row in registers"};

  template <class T>
  static void launch(const softmax::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_forward<true, softmax_rows::Mask::none>(a, stream);
  }
};

const ladder::Register<LogRegisters, log_softmax, float, ladder::half, ladder::bfloat16>
    registration;

}  // namespace

namespace softmax_rows {
// Other versions call it too.
template void launch_forward<true, Mask::none>(const softmax::Args<float>&, cudaStream_t);
template void launch_forward<true, Mask::none>(const softmax::Args<ladder::half>&, cudaStream_t);
template void launch_forward<true, Mask::none>(const softmax::Args<ladder::bfloat16>&,
                                               cudaStream_t);
}  // namespace softmax_rows
