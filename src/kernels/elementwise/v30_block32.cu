// Idea      block size: 32 threads
// Vs v04    one vector per thread; an SM holds at most 32 blocks at a time, which is half the
//           threads it could hold
// Bound by  how fast the GPU starts blocks: one of 32 threads costs as much to start as one of 1024
// Limits    none
#include "block_size.hpp"

namespace {

using elementwise::relu;

struct Block32 {
  static constexpr ladder::Version version{"one vector per thread, blocks of 32 threads"};

  static void launch(const relu::Args<float>& a, cudaStream_t stream) {
    elementwise::launch_one_vector<32>(a, stream);
  }
};

const ladder::Register<Block32, relu, float> registration;

}  // namespace
