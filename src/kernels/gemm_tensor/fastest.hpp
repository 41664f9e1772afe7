// Which of several launches is the fastest on this GPU, for versions that time their choices when a
// problem is first prepared.
#pragma once

#include "harness/cuda/error.hpp"
#include "harness/cuda/event.hpp"
#include "harness/cuda/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gemm_fastest {

/// Device memory for as long as it is needed.
class Scratch {
 public:
  Scratch(std::size_t bytes, const char* what) : data_(ladder::allocate_on_gpu(bytes, what)) {}
  ~Scratch() { cudaFree(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  void* data_;
};

/// The number of the fastest of so many launches by its median time. They take turns, after a first launch of
/// each, with an L2 full of other data; those that then are in front take more of them, because of many that are
/// about as fast the least of a few times is not the fastest's. Of equal ones the first. launch(i) launches number i
/// in the default stream, and says whether it was accepted.
template <class Launch>
int fastest(int count, Launch launch) {
  constexpr int kRounds = 5, kInFront = 6, kMoreRounds = 20;
  int device = 0, l2_bytes = 0;
  LADDER_CUDA(cudaGetDevice(&device));
  LADDER_CUDA(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
  const std::size_t other = 2 * static_cast<std::size_t>(l2_bytes);
  const Scratch data(other, "what is to be in the L2 while algorithms are timed");
  std::vector<ladder::Event> starts(static_cast<std::size_t>(count)), stops(starts.size());

  struct Timed {
    std::size_t number;
    std::vector<double> us{};
    double median = 0;
  };
  std::vector<Timed> left;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (launch(static_cast<int>(i))) left.push_back({i});
  }
  auto time = [&](int rounds) {
    for (int round = 0; round < rounds && !left.empty(); ++round) {
      for (const Timed& one : left) {
        LADDER_CUDA(cudaMemsetAsync(data.data(), 0, other));
        starts[one.number].record(nullptr);
        launch(static_cast<int>(one.number));
        stops[one.number].record(nullptr);
      }
      stops[left.back().number].wait();  // once for all: between them the GPU is never idle
      for (Timed& one : left) {
        one.us.push_back(stops[one.number].us_since(starts[one.number]));
      }
    }
    for (Timed& one : left) {
      const auto middle = one.us.begin() + static_cast<std::ptrdiff_t>(one.us.size() / 2);
      std::nth_element(one.us.begin(), middle, one.us.end());
      one.median = *middle;
    }
    std::ranges::stable_sort(left, {}, &Timed::median);
  };
  time(kRounds);
  if (left.size() > kInFront) left.resize(kInFront);
  time(kMoreRounds);
  return left.empty() ? 0 : static_cast<int>(left.front().number);
}

}  // namespace gemm_fastest
