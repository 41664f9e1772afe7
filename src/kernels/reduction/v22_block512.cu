// Idea      v06 with 512 threads per block instead of 256
// Vs v06    one barrier more, at each of which twice as many warps wait; half as many blocks
// Bound by  few bytes in flight, and barriers
// Limits    none
#include "block_size.hpp"

namespace {

struct Block512 : reduction::UnrolledPass<512> {
  static constexpr ladder::Version version{"v06 with 512 threads per block"};
};
const ladder::Register<reduction::InPasses<Block512>, reduction::sum, float> sum;

}  // namespace
