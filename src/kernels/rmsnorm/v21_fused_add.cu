// Idea      v08 with one step more, as LayerNorm's v21, whose kernel this is: the residual is added as
//           soon as the row has been loaded
// Vs v08    another operation: RMSNorm of x + residual, and the sum, which is written for the next layer
//           and not read again: 4n, where two launches, the sum and then RMSNorm, move 5n
// Bound by  DRAM bandwidth
// Limits    none. x, residual, y and sum start at multiples of 16 bytes. What of a row is beyond 64
//           KiB, half the registers of 1024 threads, is read twice: the other half is for the
//           residual.
// Tile      as v08, with 64 bytes of the row in a thread
#include "kernels/row_norm/launchers.hpp"

namespace {

struct FusedAdd {
  static constexpr ladder::Version version{"x + residual and its RMSNorm in one launch"};

  template <class T>
  static void launch(const rmsnorm_add::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_fused_add<rmsnorm_add>(a, stream);
  }
};

const ladder::Register<FusedAdd, rmsnorm_add, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
