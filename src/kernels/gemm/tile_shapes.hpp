// The shapes of tiles that scripts/autotune.py tries: BM, BN, BK, WM, WN, stages, blocks per SM
// and K-tiles of a run.
#pragma once

#include "tiles.hpp"

namespace {

template <class... S>
struct Shapes {};

using Candidates = Shapes<
    // one block per SM
    Shape<128, 256, 8, 64, 64, 4, 1, 0>, Shape<256, 128, 8, 64, 64, 4, 1, 0>,
    Shape<128, 256, 16, 64, 64, 3, 1, 0>, Shape<128, 256, 8, 64, 64, 4, 1, 48>,
    // two
    Shape<128, 128, 16, 64, 64, 3, 2, 0>, Shape<128, 128, 8, 64, 64, 4, 2, 0>,
    Shape<128, 128, 8, 64, 64, 4, 2, 48>, Shape<128, 64, 16, 32, 64, 3, 2, 24>,
    // three
    Shape<64, 128, 16, 32, 64, 3, 3, 0>, Shape<64, 128, 16, 32, 64, 3, 3, 24>,
    Shape<128, 64, 16, 32, 64, 3, 3, 24>, Shape<64, 64, 16, 32, 32, 4, 3, 24>>;

}  // namespace
