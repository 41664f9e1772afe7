// Idea      as LayerNorm's v22, whose kernel this is: a row of more than 64 KiB is held by a cluster of
//           2, 4 or 8 blocks
// Vs v21    of rows of up to 512 KiB the sum is not read again
// Bound by  DRAM bandwidth
// Limits    Hopper. x, residual, y and sum start at multiples of 16 bytes. What of a row is beyond
//           512 KiB is read twice.
// Tile      as v21
#include "kernels/row_norm/launchers.hpp"

namespace {

struct ClusterAdd {
  static constexpr ladder::Version version{"long rows held by clusters of blocks"};

  template <class T>
  static void launch(const rmsnorm_add::Args<T>& a, cudaStream_t stream) {
    row_norm::launch_cluster_add<rmsnorm_add>(a, stream);
  }
};

const ladder::Register<ClusterAdd, rmsnorm_add, float, ladder::half, ladder::bfloat16> registration;

}  // namespace
