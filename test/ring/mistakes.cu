// Versions of the ring that are wrong, each in its own way.
#include "device/on_each.hpp"
#include "ring.hpp"

namespace {

constexpr int kBlock = 256;

__global__ void push(const float* x, float* to, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < n) to[i] = x[i];
}
__global__ void add(const float* x, const float* from, float* y, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < n) y[i] = x[i] + from[i];
}
__global__ void raise(unsigned* flag) { *flag = 1; }

enum class Mistake {
  stays,           // stores in the workspace of the same device
  others_result,   // adds into the next device's result
  leaves_one_out,  // the last device
  too_far,         // an element more than the workspace has
  does_not_wait,   // adds while others store
  leaves_state,    // on the last device
  other_stream     // launches into the stream of the first device
};

template <Mistake mistake>
struct Wrong {
  static constexpr ladder::Version version{"a planted mistake"};

  static std::size_t workspace(const ring::Args<float>& a) {
    return static_cast<std::size_t>(a.n) * sizeof(float);
  }
  static std::size_t state(const ring::Args<float>&) { return sizeof(unsigned); }

  static void launch(const ring::Args<float>& a, ladder::Ranks ranks) {
    const std::int64_t blocks = ladder::ceil_div(a.n, kBlock);
    const auto next = [&](const ladder::Rank& rank) { return (rank.index + 1) % ranks.count; };
    const auto push_from = [&](const ladder::Rank& rank) {
      const int to = mistake == Mistake::stays ? rank.index : next(rank);
      const std::int64_t n = mistake == Mistake::too_far ? a.n + 1 : a.n;
      ladder::launch(push, blocks, kBlock, 0,
                     (mistake == Mistake::other_stream ? ranks[0] : rank).stream, a.x[rank.index],
                     static_cast<float*>(ranks[to].workspace), n);
    };
    const auto add_on = [&](const ladder::Rank& rank) {
      const bool is_last = rank.index == ranks.count - 1;
      if (mistake == Mistake::leaves_one_out && is_last) return;
      const int to = mistake == Mistake::others_result ? next(rank) : rank.index;
      ladder::launch(add, blocks, kBlock, 0, rank.stream, a.x[rank.index],
                     static_cast<const float*>(rank.workspace), a.y[to], a.n);
      if (mistake == Mistake::leaves_state && is_last) {
        ladder::launch(raise, 1, 1, 0, rank.stream, static_cast<unsigned*>(rank.state));
      }
    };
    if constexpr (mistake == Mistake::does_not_wait) {
      ladder::on_each(ranks, [&](const ladder::Rank& rank) {
        push_from(rank);
        add_on(rank);
      });
    } else {
      ladder::on_each(ranks, push_from);
      ladder::on_each(ranks, add_on);
    }
  }
};

template <Mistake mistake>
using Version = ladder::Register<Wrong<mistake>, ring, float>;

const Version<Mistake::stays> v90(ladder::kBackend, "v90_stays.cu");
const Version<Mistake::others_result> v91(ladder::kBackend, "v91_others_result.cu");
const Version<Mistake::leaves_one_out> v92(ladder::kBackend, "v92_leaves_one_out.cu");
const Version<Mistake::too_far> v93(ladder::kBackend, "v93_too_far.cu");
const Version<Mistake::does_not_wait> v94(ladder::kBackend, "v94_does_not_wait.cu");
const Version<Mistake::leaves_state> v95(ladder::kBackend, "v95_leaves_state.cu");
const Version<Mistake::other_stream> v96(ladder::kBackend, "v96_other_stream.cu");

}  // namespace
