// Idea      v06 with 64 threads per block instead of 256
// Vs v06    no barrier but the one after loading, but four times as many blocks to start: the most
//           that fit a multiprocessor, 32 of an H100's, are just enough to fill it
// Bound by  starting blocks, each of which reads 512 bytes
// Limits    none
#include "block_size.hpp"

namespace {

struct Block64 : reduction::UnrolledPass<64> {
  static constexpr ladder::Version version{"v06 with 64 threads per block"};
};
const ladder::Register<reduction::InPasses<Block64>, reduction::sum, float> sum;

}  // namespace
