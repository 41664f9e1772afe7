// Splits host-side loops (inputs, references, comparisons) over the machine's cores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace ladder {

/// Calls f(begin, end) on disjoint ranges that cover [0, n), concurrently where each range holds at
/// least `grain` indices. f must not throw.
template <class F>
void parallel_for(std::size_t n, std::size_t grain, F f) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t parts = std::clamp<std::size_t>(n / std::max<std::size_t>(grain, 1), 1, cores);
  std::vector<std::jthread> threads;
  for (std::size_t part = 1; part < parts; ++part) {
    threads.emplace_back([=] { f(n * part / parts, n * (part + 1) / parts); });
  }
  f(std::size_t{0}, n / parts);
}

}  // namespace ladder
