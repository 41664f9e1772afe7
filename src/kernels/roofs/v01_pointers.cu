// Idea      one thread follows pointers: each load returns the next address
// Bound by  latency of the L2 with loads that skip the L1, or of the L1. Writing the ring takes
//           all threads of the block less than a hundredth of the time
// Limits    none
#include "roofs.hpp"

namespace {

using roofs::Latency;
using roofs::Level;
using Pointer = unsigned long long;

template <Level kLevel>
__global__ void pointers(typename Latency<kLevel>::template Args<float> a) {
  using Op = Latency<kLevel>;
  constexpr unsigned kPointers = Op::kLine / sizeof(Pointer);
  // The L2 would fetch the rest of a sector that is written in part from DRAM.
  constexpr unsigned kSector = 32 / sizeof(Pointer);
  auto* const ring = static_cast<Pointer*>(a.workspace);
  for (unsigned line = threadIdx.x; line < a.lines; line += blockDim.x) {
    const unsigned next = (line + Op::kStep) & (a.lines - 1);
    for (unsigned p = 0; p < kSector; ++p) {
      ring[line * kPointers + p] = reinterpret_cast<Pointer>(ring + next * kPointers);
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;

  const Pointer* at = ring;
#pragma unroll 8
  for (std::int64_t i = 0; i < a.loads; ++i) {
    at = reinterpret_cast<const Pointer*>(kLevel == Level::l1 ? *at : __ldcg(at));
  }
  a.y[0] = static_cast<float>((at - ring) / kPointers);
}

template <Level kLevel>
struct Pointers {
  static constexpr ladder::Version version{"one thread follows pointers"};
  using Args = typename Latency<kLevel>::template Args<float>;

  static std::size_t workspace(const Args& a) {
    return std::size_t{a.lines} * Latency<kLevel>::kLine;
  }
  static void launch(const Args& a, cudaStream_t stream) {
    ladder::launch(pointers<kLevel>, 1, 1024, 0, stream, a);
  }
};

const ladder::Register<Pointers<Level::l2>, roofs::latency_l2, float> register_l2;
const ladder::Register<Pointers<Level::l1>, roofs::latency_l1, float> register_l1;

}  // namespace
