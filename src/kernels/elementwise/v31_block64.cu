// Idea      block size: 64 threads
// Vs v30    half the blocks to start, and 32 of them fill an SM
// Bound by  how fast blocks start, on an H200; on an H100, whose DRAM is slower, the two are close
// Limits    none
#include "block_size.hpp"

namespace {

using elementwise::relu;

struct Block64 {
  static constexpr ladder::Version version{"one vector per thread, blocks of 64 threads"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    elementwise::launch_one_vector<64>(a, stream);
  }
};

const ladder::Register<Block64, relu, float> registration;

}  // namespace
