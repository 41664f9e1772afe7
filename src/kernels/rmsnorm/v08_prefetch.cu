// Idea      rows may start anywhere, in vectors held by the smallest team of threads, and the first
//           threads of the grid prefetch all the weights to L2: LayerNorm's v07 and v08, whose kernel
//           this is, with one sum less and no bias. Not prefetched are they for fp32 rows of up to 8192
//           elements in whole vectors: it would cost registers, and these a quarter of the threads
// Vs v06    128-bit accesses for every number of columns; the first rows do not wait for DRAM twice,
//           for x and then for the weights
// Bound by  DRAM bandwidth
// Limits    none. x and y start at multiples of 16 bytes. What of a row is beyond 128 KiB, the
//           registers of 1024 threads, is read twice.
// Tile      as LayerNorm's v07: device/row_team.hpp
#include "kernels/row_norm/launchers.hpp"

namespace {

struct Prefetch {
  static constexpr ladder::Version version{"the weights on their way before x"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_prefetch<rmsnorm>(a, stream);
  }
};

const ladder::Register<Prefetch, rmsnorm, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
