// Idea      x is read once, so its lines are the first that the L2 cache gives up: they take each
//           other's places, not those of what is still to be written to DRAM, or used again
// Vs v15    streaming loads where x is up to five times as large as the L2. A longer x fills it in
//           any case, and is read by ordinary loads
// Bound by  as v15
// Limits    as v15
// Tile      as v15
#include "posted.hpp"

namespace {

constexpr std::int64_t kMostStreamed = 256 << 20;  // bytes

struct Streaming {
  static constexpr ladder::Version version{"streaming loads, which leave the L2 cache alone"};

  template <class Op, class T>
  static void launch(const reduction::Args<Op, T>& a, cudaStream_t stream) {
    a.n <= kMostStreamed / static_cast<std::int64_t>(sizeof(T))
        ? launch_posted<Op, Loads::streaming>(a, stream)
        : launch_posted<Op, Loads::ordinary>(a, stream);
  }
};

const ladder::Register<Streaming, reduction::sum, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    sum;
const ladder::Register<Streaming, reduction::max, float, ladder::half, ladder::bfloat16, double,
                       std::int32_t>
    max;

}  // namespace
