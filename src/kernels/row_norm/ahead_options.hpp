// What v34 of the norms' gradients is launched with besides its arguments.
#pragma once

namespace row_norm {

struct AheadOptions {
  bool overlapping = false;  ///< the second launch begins while the first one runs: v34b
  bool in_step = false;      ///< no block gets ahead of the others: v34c
};

}  // namespace row_norm
