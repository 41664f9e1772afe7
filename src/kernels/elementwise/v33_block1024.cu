// Idea      block size: 1024 threads
// Vs v32    a quarter of the blocks, the same threads per SM, in two blocks: 4 to 5 % slower at
//           large problems on an H200, up to 1 % faster on an H100
// Bound by  DRAM bandwidth
// Limits    none
#include "block_size.hpp"

namespace {

using elementwise::relu;

struct Block1024 {
  static constexpr ladder::Version version{"one vector per thread, blocks of 1024 threads"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    elementwise::launch_one_vector<1024>(a, stream);
  }
};

const ladder::Register<Block1024, relu, float> registration;

}  // namespace
