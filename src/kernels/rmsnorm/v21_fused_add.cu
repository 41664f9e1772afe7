// Idea      v08 with one step more: the residual is added as soon as the row is there
// Vs v20    one launch, and the sum, which is written for the next layer, is not read again: 4n
// Bound by  DRAM bandwidth
// Limits    none. x, residual, y and sum start at multiples of 16 bytes. What of a row is beyond
//           64 KiB, half the registers of 1024 threads, is read twice: the other half
//           is for the residual.
// Tile      as v07, with 64 bytes of the row in a thread
#include "kernels/layernorm/normalize.hpp"
#include "rmsnorm.hpp"

namespace {

struct FusedAdd {
  static constexpr ladder::Version version{"x + residual and its RMSNorm in one launch"};

  template <class T>
  static void launch(const rmsnorm_add::Args<T>& a, cudaStream_t stream) {
    using layernorm_rows::Weights;
    layernorm_rows::launch_normalize<rmsnorm_add, Weights::prefetched>(a, stream);
  }
};

const ladder::Register<FusedAdd, rmsnorm_add, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_normalize<rmsnorm_add, Weights::prefetched>(const rmsnorm_add::Args<float>&,
                                                                 cudaStream_t);
template void launch_normalize<rmsnorm_add, Weights::prefetched>(
    const rmsnorm_add::Args<ladder::half>&, cudaStream_t);
template void launch_normalize<rmsnorm_add, Weights::prefetched>(
    const rmsnorm_add::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace layernorm_rows
