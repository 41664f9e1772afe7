// Idea      v06 with 128 threads per block instead of 256
// Vs v06    one barrier less, twice as many blocks to start
// Bound by  starting blocks, and few bytes in flight
// Limits    none
#include "block_size.hpp"

namespace {

struct Block128 : reduction::UnrolledPass<128> {
  static constexpr ladder::Version version{"v06 with 128 threads per block"};
};
const ladder::Register<reduction::InPasses<Block128>, reduction::sum, float> sum;

}  // namespace
