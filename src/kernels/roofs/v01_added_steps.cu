// Idea      one thread, each load's address is the last one plus the distance loaded there. A table
//           of addresses for this many lines would take longer to write than to follow
// Bound by  DRAM latency, to which an addition, a mask and the address add about a dozen cycles. In
//           a ring of many times the L2 no line is met twice, and steps of most of the ring open
//           another page of DRAM each time, and of the TLB
// Limits    cold only: repeated launches would find their few lines in the L2
#include "roofs.hpp"

namespace {

using roofs::latency_dram;

__global__ void added_steps(latency_dram::Args<float> a) {
  constexpr unsigned kFloats = latency_dram::kLine / sizeof(float);
  unsigned line = 0;
#pragma unroll 4
  for (std::int64_t i = 0; i < a.loads; ++i) {
    const float step = __ldcg(a.x + std::size_t{line} * kFloats);
    line = (line + __float_as_uint(step)) & (a.lines - 1);
  }
  a.y[0] = static_cast<float>(line);
}

struct AddedSteps {
  static constexpr ladder::Version version{.idea = "one thread; address plus what was loaded there",
                                           .capturable = false};

  static void launch(const latency_dram::Args<float>& a, cudaStream_t stream) {
    ladder::launch(added_steps, 1, 1, 0, stream, a);
  }
};

const ladder::Register<AddedSteps, latency_dram, float> registration;

}  // namespace
