#include "support/parallel.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ladder {

void parallel_for(std::size_t n, std::size_t grain,
                  const std::function<void(std::size_t begin, std::size_t end)>& f) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t parts = std::clamp<std::size_t>(n / std::max<std::size_t>(grain, 1), 1, cores);
  std::exception_ptr thrown;
  std::mutex mutex;
  auto run = [&](std::size_t part) {
    try {
      f(n * part / parts, n * (part + 1) / parts);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(parts - 1);
    for (std::size_t part = 1; part < parts; ++part) {
      try {
        threads.emplace_back(run, part);
      } catch (const std::system_error&) {  // the system has no more threads
        run(part);
      }
    }
    run(0);
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace ladder
