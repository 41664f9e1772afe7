// Idea      the same 16 KiB of each stream by a block of 1024 threads
// Vs v01    32 KiB in flight per SM, not 128. A copy needs no more: on an H100 it is up to 3 %
//           faster, on an H200 0.4 to 2 % slower. To read alone it is too little
// Bound by  DRAM bandwidth
// Limits    none
#include "one_shot.hpp"

namespace {

struct BigBlocks {
  static constexpr ladder::Version version{"a block per 16 KiB, 1024 threads"};

  static void launch(const Args& a, cudaStream_t stream) { launch_one_shot<1024>(a, stream); }
};

const ladder::Register<BigBlocks, dram, float> registration;

}  // namespace
