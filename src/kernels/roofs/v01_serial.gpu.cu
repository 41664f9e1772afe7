// Idea      copy in, compute, copy out: one after the other in one stream
// Bound by  the link in one direction at a time
// Limits    none
#include "device/vector.hpp"
#include "transfer.hpp"

namespace {

using roofs::overlap;

constexpr int kBlock = 256;

__global__ void __launch_bounds__(kBlock) twice_plus_one(float* y, const float* x, std::int64_t n) {
  using Vec = ladder::Vec128<float>;
  const std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * Vec::size;
  if (i >= n) return;
  Vec v = Vec::load(x + i);
#pragma unroll
  for (int e = 0; e < Vec::size; ++e) v[e] = 2 * v[e] + 1;
  v.store(y + i);
}

/// n is a multiple of 4.
void launch_twice_plus_one(float* y, const float* x, std::int64_t n, cudaStream_t stream) {
  ladder::launch(twice_plus_one, ladder::ceil_div(n, 4 * kBlock), kBlock, 0, stream, y, x, n);
}

struct Serial {
  static constexpr ladder::Version version{.idea = "copy in, kernel, copy out, one stream",
                                           .capturable = false};

  static std::size_t workspace(const overlap::Args<float>& a) {
    return static_cast<std::size_t>(a.n) * sizeof(float);
  }
  static void launch(const overlap::Args<float>& a, cudaStream_t stream) {
    static roofs::HostArray<roofs::HostMemory::pinned> source, destination;
    const float* const from = source.get(a.n, true);
    float* const to = destination.get(a.n, false);
    auto* const x = static_cast<float*>(a.workspace);

    roofs::copy(x, from, a.n, stream);
    launch_twice_plus_one(a.y, x, a.n, stream);
    roofs::copy(to, a.y, a.n, stream);
    roofs::bring_samples(a.samples, to, a.n, stream);
  }
};

const ladder::Register<Serial, overlap, float> registration;

}  // namespace
