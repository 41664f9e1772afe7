// How many columns a team of threads has to handle.
#pragma once

#include "device/kernel.hpp"

namespace row_norm {

/// Those of its row. A team beyond the last row has none; it still executes its warp's shuffles.
template <class Args>
__device__ int columns_of(const Args& a, std::int64_t row) {
  return row < a.rows ? a.cols : 0;
}

}  // namespace row_norm
