// Idea      the first threads of the grid ask for all the weights, a cache line each, before
//           anything else; not of fp32 rows up to 8192 elements in whole vectors, where asking
//           would cost registers, and these a quarter of the threads
// Vs v07    the first rows do not wait for DRAM twice, for x and then for the weights: these are in
//           L2 when the row's sum is there
// Bound by  DRAM bandwidth
// Limits    none. x and y start at multiples of 16 bytes. What of a row is beyond 128 KiB, the
//           registers of 1024 threads, is read twice.
// Tile      as v07
#include "kernels/layernorm/normalize.hpp"
#include "rmsnorm.hpp"

namespace {

struct Prefetch {
  static constexpr ladder::Version version{"the weights on their way before x"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    using layernorm_rows::Weights;
    layernorm_rows::launch_normalize<rmsnorm, Weights::prefetched>(a, stream);
  }
};

const ladder::Register<Prefetch, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_normalize<rmsnorm, Weights::prefetched>(const rmsnorm::Args<float>&,
                                                             cudaStream_t);
template void launch_normalize<rmsnorm, Weights::prefetched>(const rmsnorm::Args<ladder::half>&,
                                                             cudaStream_t);
template void launch_normalize<rmsnorm, Weights::prefetched>(const rmsnorm::Args<ladder::bfloat16>&,
                                                             cudaStream_t);
}  // namespace layernorm_rows
