// Idea      the weights come to shared memory while the row comes to registers (cp.async): each
//           thread has its own there when the row's sum is known
// Vs v10    fp32 rows of 8193 to 32768 elements: no trip to the L2 between the sum and the stores
// Bound by  DRAM bandwidth
// Limits    Hopper, for the longer rows, which are v10's; so are shorter ones, and rows that are no
//           whole number of vectors. No two launches may overlap
// Tile      as v07; up to 128 KiB of a multiprocessor's shared memory for weights
#include "kernels/layernorm/normalize_ahead.hpp"
#include "rmsnorm.hpp"

namespace layernorm_rows {
// Compiled in v10.
extern template void launch_normalize_ahead<rmsnorm>(const rmsnorm::Args<float>&, cudaStream_t);
}  // namespace layernorm_rows

namespace {

struct ParkedWeights {
  static constexpr ladder::Version version{"the weights in shared memory before they are needed"};

  template <class T>
  static void launch(const rmsnorm::Args<T>& a, cudaStream_t stream) {
    using namespace layernorm_rows;
    if (a.cols > kLongestOfBlock<rmsnorm, T>) return launch_normalize_ahead<rmsnorm>(a, stream);
    launch_normalize<rmsnorm, Weights::parked>(a, stream);
  }
};

const ladder::Register<ParkedWeights, rmsnorm, float> registration;

}  // namespace
