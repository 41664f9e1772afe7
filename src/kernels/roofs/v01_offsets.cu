// Idea      one thread follows offsets: each load returns the next offset into shared memory, which
//           the load instruction itself adds to the array's address
// Bound by  latency of shared memory
// Limits    48 KiB
#include "roofs.hpp"

namespace {

using roofs::latency_shared;

__global__ void offsets(latency_shared::Args<float> a) {
  constexpr unsigned kLine = latency_shared::kLine;
  auto* const ring = ladder::dynamic_shared<unsigned char>();
  const auto entry = [&](unsigned offset) -> unsigned& {
    return *reinterpret_cast<unsigned*>(ring + offset);
  };
  for (unsigned line = threadIdx.x; line < a.lines; line += blockDim.x) {
    entry(line * kLine) = ((line + latency_shared::kStep) & (a.lines - 1)) * kLine;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;

  unsigned at = 0;
#pragma unroll 8
  for (std::int64_t i = 0; i < a.loads; ++i) at = entry(at);
  a.y[0] = static_cast<float>(at / kLine);
}

struct Offsets {
  static constexpr ladder::Version version{"one thread follows offsets"};

  static void launch(const latency_shared::Args<float>& a, cudaStream_t stream) {
    constexpr int kBlock = 128;
    const std::size_t bytes = std::size_t{a.lines} * latency_shared::kLine;
    ladder::launch(offsets, 1, kBlock, bytes, stream, a);
  }
  static ladder::Support supports(const latency_shared::Problem& p) {
    return p.bytes <= 48 * 1024 ? ladder::supported() : ladder::unsupported("at most 48 KiB");
  }
};

const ladder::Register<Offsets, latency_shared, float> registration;

}  // namespace
