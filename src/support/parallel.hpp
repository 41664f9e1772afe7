// Splits host-side loops (inputs, references, comparisons) over the machine's cores.
#pragma once

#include <cstddef>
#include <functional>

namespace ladder {

/// Calls f(begin, end) on disjoint ranges that cover [0, n), concurrently where each range holds at
/// least `grain` indices. Throws what f threw first, when no call runs any more.
void parallel_for(std::size_t n, std::size_t grain,
                  const std::function<void(std::size_t begin, std::size_t end)>& f);

}  // namespace ladder
