// Idea      each device stores its numbers in the next one's workspace, and when all have, each adds there
// Bound by  the links between the devices, and two launches
#include "device/on_each.hpp"
#include "ring.hpp"

namespace {

constexpr int kBlock = 256;

__global__ void __launch_bounds__(kBlock) push(const float* x, float* to, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < n) to[i] = x[i];
}
__global__ void __launch_bounds__(kBlock)
    add(const float* x, const float* from, float* y, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < n) y[i] = x[i] + from[i];
}

struct Push {
  static constexpr ladder::Version version{
      "a launch that stores to the next device, one that adds"};

  static std::size_t workspace(const ring::Args<float>& a) {
    return static_cast<std::size_t>(a.n) * sizeof(float);
  }
  static void launch(const ring::Args<float>& a, ladder::Ranks ranks) {
    const std::int64_t blocks = ladder::ceil_div(a.n, kBlock);
    ladder::on_each(ranks, [&](const ladder::Rank& rank) {
      const ladder::Rank& next = ranks[(rank.index + 1) % ranks.count];
      ladder::launch(push, blocks, kBlock, 0, rank.stream, a.x[rank.index],
                     static_cast<float*>(next.workspace), a.n);
    });
    ladder::on_each(ranks, [&](const ladder::Rank& rank) {
      ladder::launch(add, blocks, kBlock, 0, rank.stream, a.x[rank.index],
                     static_cast<const float*>(rank.workspace), a.y[rank.index], a.n);
    });
  }
};

const ladder::Register<Push, ring, float> registration;

}  // namespace
