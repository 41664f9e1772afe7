#include "harness/parallel.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace ladder {

void parallel_for(std::size_t n, std::size_t grain,
                  const std::function<void(std::size_t begin, std::size_t end)>& f) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t parts = std::clamp<std::size_t>(n / std::max<std::size_t>(grain, 1), 1, cores);
  std::vector<std::jthread> threads;
  for (std::size_t part = 1; part < parts; ++part) {
    threads.emplace_back([&, part] { f(n * part / parts, n * (part + 1) / parts); });
  }
  f(0, n / parts);
}

}  // namespace ladder
