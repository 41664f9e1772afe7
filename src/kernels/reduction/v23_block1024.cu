// Idea      v06 with 1024 threads per block instead of 256
// Vs v06    two barriers more, at each of which four times as many warps wait; two blocks fill a
//           multiprocessor, so that half of it is idle whenever one of them is in its tree
// Bound by  barriers, at which half of a multiprocessor waits together
// Limits    none
#include "block_size.hpp"

namespace {

struct Block1024 : reduction::UnrolledPass<1024> {
  static constexpr ladder::Version version{"v06 with 1024 threads per block"};
};
const ladder::Register<reduction::InPasses<Block1024>, reduction::sum, float> sum;

}  // namespace
