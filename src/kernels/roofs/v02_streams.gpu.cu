// Idea      sixteen chunks round-robin over four streams: while one is computed, the next comes in
//           and the one before goes out
// Vs v01    both directions of the link and the SMs work at the same time. The streams are forked
//           from the caller's by an event, and joined to it by one each
// Bound by  the link, in both directions at once
// Limits    none
#include "device/vector.hpp"
#include "transfer.hpp"

namespace {

using roofs::overlap;

constexpr int kBlock = 256;
constexpr int kStreams = 4;
constexpr int kChunks = 16;
static_assert(overlap::kSamples % kChunks == 0, "chunks are whole, and start at 16 bytes");

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

/// Made at the first launch, and kept.
struct Streams {
  cudaStream_t stream[kStreams];
  cudaEvent_t fork, join[kStreams];

  Streams() {
    LADDER_CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    for (int i = 0; i < kStreams; ++i) {
      LADDER_CUDA(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
      LADDER_CUDA(cudaEventCreateWithFlags(&join[i], cudaEventDisableTiming));
    }
  }
};

struct OverStreams {
  static constexpr ladder::Version version{.idea = "16 chunks over 4 streams", .capturable = false};

  static std::size_t workspace(const overlap::Args<float>& a) {
    return static_cast<std::size_t>(a.n) * sizeof(float);
  }
  static void launch(const overlap::Args<float>& a, cudaStream_t stream) {
    static roofs::HostArray<roofs::HostMemory::pinned> source, destination;
    static const Streams own;
    const float* const from = source.get(a.n, true);
    float* const to = destination.get(a.n, false);
    auto* const x = static_cast<float*>(a.workspace);

    LADDER_CUDA(cudaEventRecord(own.fork, stream));
    for (cudaStream_t s : own.stream) LADDER_CUDA(cudaStreamWaitEvent(s, own.fork));
    const std::int64_t n = a.n / kChunks;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const cudaStream_t s = own.stream[chunk % kStreams];
      const std::int64_t at = chunk * n;
      roofs::copy(x + at, from + at, n, s);
      launch_twice_plus_one(a.y + at, x + at, n, s);
      roofs::copy(to + at, a.y + at, n, s);
    }
    for (int i = 0; i < kStreams; ++i) {
      LADDER_CUDA(cudaEventRecord(own.join[i], own.stream[i]));
      LADDER_CUDA(cudaStreamWaitEvent(stream, own.join[i]));
    }
    roofs::bring_samples(a.samples, to, a.n, stream);
  }
};

const ladder::Register<OverStreams, overlap, float> registration;

}  // namespace
