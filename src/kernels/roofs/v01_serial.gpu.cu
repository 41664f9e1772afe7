// Idea      copy in, compute, copy out: one after the other in one stream
// Bound by  the link in one direction at a time
// Limits    none
#include "overlap.hpp"

namespace {

using roofs::overlap;

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
    roofs::launch_twice_plus_one(a.y, x, a.n, stream);
    roofs::copy(to, a.y, a.n, stream);
    roofs::bring_samples(a.samples, to, a.n, stream);
  }
};

const ladder::Register<Serial, overlap, float> registration;

}  // namespace
