// Idea      one launch: a block raises a flag on the next device when its numbers are there
// Vs        v01: launches that wait for each other
// Bound by  the links between the devices
// Limits    relies on ascending dispatch, and on the devices' kernels running at the same time
#include "device/on_each.hpp"
#include "device/ptx/memory_order.hpp"
#include "ring.hpp"

namespace {

using ladder::ptx::Scope;

constexpr int kBlock = 256;

__global__ void __launch_bounds__(kBlock)
    pass_on(const float* x, float* y, std::int64_t n, const float* own, unsigned* own_flags,
            float* next, unsigned* next_flags) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < n) next[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    ladder::ptx::store_release<Scope::system>(&next_flags[blockIdx.x], 1u);
    while (ladder::ptx::load_acquire<Scope::system>(&own_flags[blockIdx.x]) == 0) continue;
    own_flags[blockIdx.x] = 0;
  }
  __syncthreads();
  if (i < n) y[i] = x[i] + own[i];
}

struct Flags {
  static constexpr ladder::Version version{"one launch, flags on the next device"};

  static std::size_t workspace(const ring::Args<float>& a) {
    return static_cast<std::size_t>(a.n) * sizeof(float);
  }
  static std::size_t state(const ring::Args<float>& a) {
    return static_cast<std::size_t>(ladder::ceil_div(a.n, kBlock)) * sizeof(unsigned);
  }
  static void launch(const ring::Args<float>& a, ladder::Ranks ranks) {
    ladder::on_each(ranks, [&](const ladder::Rank& rank) {
      const ladder::Rank& next = ranks[(rank.index + 1) % ranks.count];
      ladder::launch(pass_on, ladder::ceil_div(a.n, kBlock), kBlock, 0, rank.stream,
                     a.x[rank.index], a.y[rank.index], a.n,
                     static_cast<const float*>(rank.workspace), static_cast<unsigned*>(rank.state),
                     static_cast<float*>(next.workspace), static_cast<unsigned*>(next.state));
    });
  }
};

const ladder::Register<Flags, ring, float> registration;

}  // namespace
