// Idea      no copy: a kernel reads and writes managed memory that is to stay on the host
// Vs v02    the SMs' own loads and stores go over the link instead of a copy engine's
// Bound by  the link; by how many loads are in flight if those are fewer than its latency needs.
//           Without the advice to stay the pages would move to the GPU at the first touch, page by
//           page, and from then on nothing would be transferred
// Limits    managed memory that CPU and GPU may use at the same time
#include "device/vector.hpp"
#include "transfer.hpp"

namespace {

using roofs::d2h;
using roofs::h2d;
using Array = roofs::HostArray<roofs::HostMemory::managed>;
using Vec = ladder::Vec128<float>;

constexpr ladder::Version kVersion{.idea = "a kernel on managed memory that stays on the host",
                                   .capturable = false};
constexpr int kBlock = 256;
constexpr int kVectors = 4;  // per thread

__global__ void __launch_bounds__(kBlock)
    copy_vectors(float* to, const float* from, std::int64_t n) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kBlock * kVectors) + threadIdx.x;
  Vec v[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t i = (first + j * kBlock) * Vec::size;
    if (i < n) v[j] = Vec::load(from + i);
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const std::int64_t i = (first + j * kBlock) * Vec::size;
    if (i < n) v[j].store(to + i);
  }
}

void launch_copy(float* to, const float* from, std::int64_t n, cudaStream_t stream) {
  const std::int64_t blocks = ladder::ceil_div(n, kBlock * kVectors * Vec::size);
  ladder::launch(copy_vectors, blocks, kBlock, 0, stream, to, from, n);
}

ladder::Support has_managed_memory() {
  int device = 0, concurrent = 0;
  LADDER_CUDA(cudaGetDevice(&device));
  LADDER_CUDA(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
  return concurrent ? ladder::supported()
                    : ladder::unsupported("no concurrent access to managed memory here");
}

struct ToDevice {
  static constexpr ladder::Version version = kVersion;
  static ladder::Support supports(const h2d::Problem&) { return has_managed_memory(); }
  static void launch(const h2d::Args<float>& a, cudaStream_t stream) {
    static Array host;
    launch_copy(a.y, host.get(a.n, true), a.n, stream);
  }
};

struct ToHost {
  static constexpr ladder::Version version = kVersion;
  static ladder::Support supports(const d2h::Problem&) { return has_managed_memory(); }
  static void launch(const d2h::Args<float>& a, cudaStream_t stream) {
    static Array host;
    float* const array = host.get(a.n, false);
    launch_copy(array, a.x, a.n, stream);
    roofs::bring_samples(a.samples, array, a.n, stream);
  }
};

const ladder::Register<ToDevice, h2d, float> to_device;
const ladder::Register<ToHost, d2h, float> to_host;

}  // namespace
