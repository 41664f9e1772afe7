// Which of several launches is the fastest on this GPU, for versions that time their choices when a
// problem is first prepared.
#pragma once

#include "harness/cuda/error.hpp"
#include "harness/cuda/event.hpp"
#include "harness/cuda/memory.hpp"

#include <algorithm>
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

/// The number of the fastest of so many launches by its median time, with an L2 full of other data. After
/// a first launch of each they take turns, of one untimed launch and three that are timed: otherwise those
/// whose predecessor is the same kernel would alone find its instructions in the SMs' caches. launch(i)
/// launches number i in the default stream, and says whether it was accepted.
template <class Launch>
int fastest(int count, Launch launch) {
  constexpr int kTurns = 3, kTimed = 3;
  int device = 0, l2_bytes = 0;
  LADDER_CUDA(cudaGetDevice(&device));
  LADDER_CUDA(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
  const std::size_t other = 2 * static_cast<std::size_t>(l2_bytes);
  const Scratch data(other, "what is to be in the L2 while algorithms are timed");
  ladder::Event start, stop;

  std::vector<bool> accepted;
  for (int i = 0; i < count; ++i) accepted.push_back(launch(i));
  std::vector<std::vector<double>> us(static_cast<std::size_t>(count));
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int i = 0; i < count; ++i) {
      if (!accepted[i]) continue;
      launch(i);
      for (int timed = 0; timed < kTimed; ++timed) {
        LADDER_CUDA(cudaMemsetAsync(data.data(), 0, other));
        start.record(nullptr);
        launch(i);
        stop.record(nullptr);
        stop.wait();
        us[i].push_back(stop.us_since(start));
      }
    }
  }
  int best = 0;
  double least = 0;
  for (int i = 0; i < count; ++i) {
    if (!accepted[i]) continue;
    const auto middle = us[i].begin() + kTurns * kTimed / 2;
    std::nth_element(us[i].begin(), middle, us[i].end());
    const double median = *middle;
    if (least > 0 && median >= least) continue;
    best = i;
    least = median;
  }
  return best;
}

}  // namespace gemm_fastest
