// Idea      the first threads of the grid ask for all of weight and bias, a cache line each, before
//           anything else
// Vs v07    the first rows do not wait for DRAM twice, for x and then for weight and bias: these
//           are in L2 when the row's sums are there
// Bound by  DRAM bandwidth
// Limits    none. x and y start at multiples of 16 bytes. What of a row is beyond 128 KiB, the
//           registers of 1024 threads, is read three times.
// Tile      as v07
#include "layernorm.hpp"
#include "normalize.hpp"

namespace {

struct Prefetch {
  static constexpr ladder::Version version{"weight and bias on their way before x"};

  template <class T>
  static void launch(const layernorm::Args<T>& a, cudaStream_t stream) {
    using layernorm_rows::Weights;
    layernorm_rows::launch_normalize<layernorm, Weights::prefetched>(a, stream);
  }
};

const ladder::Register<Prefetch, layernorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace

namespace layernorm_rows {
// Other versions call it too.
template void launch_normalize<layernorm, Weights::prefetched>(const layernorm::Args<float>&,
                                                               cudaStream_t);
template void launch_normalize<layernorm, Weights::prefetched>(const layernorm::Args<ladder::half>&,
                                                               cudaStream_t);
template void launch_normalize<layernorm, Weights::prefetched>(
    const layernorm::Args<ladder::bfloat16>&, cudaStream_t);
}  // namespace layernorm_rows
