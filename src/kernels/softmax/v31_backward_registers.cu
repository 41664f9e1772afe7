// Idea      y and dy of the row stay in registers: they are read from memory once, in 128-bit
//           vectors that are all in flight before the first is used
// Vs v30    the traffic is the compulsory 3n; rows of any length in vectors, as in v07
// Bound by  DRAM bandwidth
// Limits    none; matrices start at multiples of 32 bytes. What of a row is beyond 16384 elements,
//           the registers of 1024 threads, is read twice
// Tile      a row is spread over kThreads threads of kElements elements of each input: see
//           backward_row.hpp, where the kernel is, because v32 shares it
#include "backward_row.hpp"

namespace {

template <class Op>
struct BackwardRegisters {
  static constexpr ladder::Version version{"128-bit vectors, the row in registers"};

  template <class T>
  static void launch(const softmax_gradient::Args<T>& a, cudaStream_t stream) {
    softmax_rows::launch_backward<Op>(a, stream);
  }
};

template <class Op>
using Registration =
    ladder::Register<BackwardRegisters<Op>, Op, float, ladder::half, ladder::bfloat16>;
const Registration<softmax_backward> register_backward;
const Registration<log_softmax_backward> register_log_backward;

}  // namespace

namespace softmax_rows {
// Other versions call it too.
template void launch_backward<softmax_backward>(const softmax_gradient::Args<float>&, cudaStream_t);
template void launch_backward<softmax_backward>(const softmax_gradient::Args<ladder::half>&,
                                                cudaStream_t);
template void launch_backward<softmax_backward>(const softmax_gradient::Args<ladder::bfloat16>&,
                                                cudaStream_t);
template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<float>&,
                                                    cudaStream_t);
template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<ladder::half>&,
                                                    cudaStream_t);
template void launch_backward<log_softmax_backward>(const softmax_gradient::Args<ladder::bfloat16>&,
                                                    cudaStream_t);
}  // namespace softmax_rows
