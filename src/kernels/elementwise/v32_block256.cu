// Idea      block size: 256 threads
// Vs v31    a quarter of the blocks, the same threads per SM
// Bound by  DRAM bandwidth
// Limits    none
#include "block_size.hpp"

namespace {

using elementwise::relu;

struct Block256 {
  static constexpr ladder::Version version{"one vector per thread, blocks of 256 threads"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    elementwise::launch_one_vector<256>(a, stream);
  }
};

const ladder::Register<Block256, relu, float> registration;

}  // namespace
