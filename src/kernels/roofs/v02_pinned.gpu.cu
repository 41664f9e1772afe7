// Idea      copies from and to pinned memory of the host: pages that stay where they are
// Vs v01    the GPU's copy engine reads and writes them by itself, and the call returns at once
// Bound by  the link
// Limits    none; like all transfers never measured hot: the caches have no part in them
#include "transfer.hpp"

namespace {

using roofs::d2h;
using roofs::h2d;
using Array = roofs::HostArray<roofs::HostMemory::pinned>;

constexpr ladder::Version kVersion{.idea = "cudaMemcpyAsync, pinned memory", .capturable = false};

struct ToDevice {
  static constexpr ladder::Version version = kVersion;
  static void launch(const h2d::Args<float>& a, cudaStream_t stream) {
    static Array host;
    roofs::copy(a.y, host.get(a.n, true), a.n, stream);
  }
};

struct ToHost {
  static constexpr ladder::Version version = kVersion;
  static void launch(const d2h::Args<float>& a, cudaStream_t stream) {
    static Array host;
    float* const array = host.get(a.n, false);
    roofs::copy(array, a.x, a.n, stream);
    roofs::bring_samples(a.samples, array, a.n, stream);
  }
};

const ladder::Register<ToDevice, h2d, float> to_device;
const ladder::Register<ToHost, d2h, float> to_host;

}  // namespace
