// Idea      copies from and to ordinary memory of the host
// Bound by  the CPU: the GPU cannot read pages that the system may move at any time, so the driver
//           copies them through a pinned buffer of its own, and the call waits for that
// Limits    none; cannot be part of a CUDA graph
#include "transfer.hpp"

namespace {

using roofs::d2h;
using roofs::h2d;
using Array = roofs::HostArray<roofs::HostMemory::pageable>;

constexpr ladder::Version kVersion{.idea = "cudaMemcpyAsync, pageable memory", .capturable = false};

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
