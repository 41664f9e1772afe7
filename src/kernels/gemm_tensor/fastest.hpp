// Which of several launches is the fastest on this GPU, and memory of their own to launch them on, for
// versions that time their choices to plan a problem.
#pragma once

#include "device/l2_bytes.hpp"
#include "harness/cuda/error.hpp"
#include "harness/cuda/event.hpp"
#include "harness/cuda/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gemm_fastest {

/// Device memory for as long as it is needed, which starts as far behind a multiple of 256 bytes as `like`.
class Scratch {
 public:
  Scratch(std::size_t bytes, const char* what, const void* like = nullptr)
      : start_(reinterpret_cast<std::uintptr_t>(like) % 256),
        memory_(static_cast<char*>(ladder::allocate_on_gpu(start_ + bytes, what))) {}
  ~Scratch() { cudaFree(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return memory_ + start_; }

 private:
  std::size_t start_;
  char* memory_;
};

namespace {

template <class T>
__global__ void fill_at_random(T* to, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  auto bits = static_cast<std::uint32_t>(i);  // mixed by Chris Wellons's lowbias32
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  bits ^= bits >> 16;
  to[i] = T(static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f);
}

}  // namespace

/// An operand in place of one that nobody may read yet: numbers from -1 to 1. Zeros would be multiplied faster,
/// for they take less power.
template <class T>
class Operand {
 public:
  Operand(const T* like, std::size_t count)
      : memory_(count * sizeof(T), "an operand, while choices are timed", like) {
    fill_at_random<<<static_cast<unsigned>(ladder::ceil_div(count, std::size_t{256})), 256>>>(
        static_cast<T*>(memory_.data()), count);
    LADDER_CUDA(cudaGetLastError());
  }
  const T* data() const { return static_cast<const T*>(memory_.data()); }

 private:
  Scratch memory_;
};

/// The number of the fastest of so many launches by its median time, with an L2 full of other data. After
/// a first launch of each they take turns, of one untimed launch and three that are timed: otherwise those
/// whose predecessor is the same kernel would alone find its instructions in the SMs' caches. launch(i)
/// launches number i in the default stream, and says whether it was accepted.
template <class Launch>
int fastest(int count, Launch launch) {
  constexpr int kTurns = 3, kTimed = 3;
  const std::size_t other = 2 * static_cast<std::size_t>(ladder::l2_bytes());
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
