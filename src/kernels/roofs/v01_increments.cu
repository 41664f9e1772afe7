// Idea      every thread counts by atomicAdd, of which it wants no result: a warp's additions are in 32
//           neighbouring counters, and the next ones in others as far as there are any
// Bound by  the atomics of shared memory. An addition takes three more instructions or so, of which an
//           SM issues four in a cycle
// Limits    none
#include "roofs.hpp"

namespace {

using roofs::shared_atomics;
using Args = shared_atomics::Args<std::int32_t>;

__global__ void __launch_bounds__(shared_atomics::kBlock) increments(Args a) {
  __shared__ std::int32_t counts[shared_atomics::kMostCounters];
  constexpr int kBlock = shared_atomics::kBlock;
  const int t = static_cast<int>(threadIdx.x);
  for (int i = t; i < a.counters; i += kBlock) counts[i] = 0;
  __syncthreads();

  int at = t & (a.counters - 1);
#pragma unroll 16
  for (int step = 0; step < shared_atomics::kSteps; ++step) {
    atomicAdd(&counts[at], 1);
    at = (at + kBlock) & (a.counters - 1);
  }

  __syncthreads();
  std::int32_t* const y = a.y + std::int64_t{blockIdx.x} * a.counters;
  for (int i = t; i < a.counters; i += kBlock) y[i] = counts[i];
}

struct Increments {
  static constexpr ladder::Version version{"atomicAdd by all threads, a warp's in 32 banks"};

  static void launch(const Args& a, cudaStream_t stream) {
    ladder::launch(increments, a.blocks, shared_atomics::kBlock, 0, stream, a);
  }
};

const ladder::Register<Increments, shared_atomics, std::int32_t> registration;

}  // namespace
