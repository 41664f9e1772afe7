// Idea      a block per 16 KiB of each stream, in the order of memory; every thread has four
//           vectors of each in flight: 8 blocks have 128 KiB in flight per SM
// Bound by  DRAM bandwidth
// Limits    none
#include "one_shot.hpp"

namespace {

struct OneShot {
  static constexpr ladder::Version version{"a block per 16 KiB, 4 vectors per thread and stream"};

  static void launch(const Args& a, cudaStream_t stream) { launch_one_shot<256>(a, stream); }
};

const ladder::Register<OneShot, dram, float> registration;

}  // namespace
