// Built with LADDER_ALL_TILES: every shape of tile_shapes.hpp, with every way to share out a product, as a
// version, on the GPU only, for scripts/autotune.py to time; and whole tiles with a copy of B. The names
// tell the shapes and ways: v20a_128x256x8_64x64_4_1_0_cut.
#if defined(LADDER_ALL_TILES)
#include "tile_shapes.hpp"

#include <algorithm>
#include <list>
#include <string>

namespace {

/// About the cycles of the busiest SM, for a shape and way to be left out that is far from the fastest.
template <class S>
double roughly(const Plan& plan) {
  const int parts = plan.cluster * plan.splits;
  const double tiles = plan.whole + plan.cut, sms = ladder::sm_count();
  const double blocks = plan.cut > 0 ? tiles / sms + 0.3 : std::ceil(tiles * parts / sms);
  const double warps = std::min(blocks, double{S::kBlocksPerSm}) * S::kThreads / 32;
  const double speed = 128 * std::min(1.0, std::sqrt(warps / 8)) * (S::BM * S::BN > 4096 ? 1 : 0.8);
  const double k_tiles = ladder::ceil_div(plan.k_tiles, parts) + 4;
  return blocks * k_tiles * S::BM * S::BN * S::BK / speed + (plan.splits > 1 ? 4000 : 0);
}
constexpr double kStart = 5000;  // cycles, of all
constexpr double kFar = 1.8;     // times the least ones

template <class... S>
double least_of(Shapes<S...>, const gemm::Args<float>& g) {
  double least = 1e300;
  auto consider = [&]<class Shape>(Shape) {
    for (const Way& way : kWays) {
      if (const auto plan = plan_of_way<Shape>(g, way)) {
        least = std::min(least, roughly<Shape>(*plan));
      }
    }
  };
  (consider(S{}), ...);
  return least;
}

template <class S, int kWay, bool kPacks>
struct Candidate {
  static constexpr ladder::Version version{"one shape of tile for all problems"};

  static std::size_t workspace(const gemm::Args<float>& g) {
    const auto plan = plan_of_way<S>(g, kWays[kWay]);
    return plan ? planned_bytes<S>(g, *plan, kPacks) : 0;
  }
  static std::size_t state(const gemm::Args<float>& g) {
    return kWays[kWay].cut ? cut_state<S>(g) : 0;
  }
  static void launch(const gemm::Args<float>& g, void* state, cudaStream_t stream) {
    launch_planned<S>(g, *plan_of_way<S>(g, kWays[kWay]), kPacks, state, stream);
  }
  static ladder::Support supports(const gemm::Problem& p) {
    const gemm::Args<float> g{nullptr, nullptr, nullptr, p.m, p.n, p.k};
    const auto plan = plan_of_way<S>(g, kWays[kWay]);
    if (!plan || (kPacks && rows_aligned(g.b, g.n))) {
      return ladder::unsupported("no such way to share it out");
    }
    if (roughly<S>(*plan) + kStart > kFar * (least_of(Candidates{}, g) + kStart)) {
      return ladder::unsupported("far from the fastest");
    }
    return ladder::supported();
  }
};

/// A file that such a version could be in.
template <class S>
std::string file_name(const char* way) {
  auto text = [](int size) { return std::to_string(size); };
  return "v20a_" + text(S::BM) + "x" + text(S::BN) + "x" + text(S::BK) + "_" + text(S::WM) + "x" +
         text(S::WN) + "_" + text(S::kStages) + "_" + text(S::kBlocksPerSm) + "_" + text(S::kRun) +
         "_" + way + ".gpu.cu";
}

std::list<std::string> names;  // the registry has pointers to them

template <class S, int kWay, bool kPacks>
void register_one(const char* way) {
  ladder::Register<Candidate<S, kWay, kPacks>, gemm, float>(
      ladder::kBackend, names.emplace_back(file_name<S>(way)).c_str());
}
template <class S, int... i>
void register_ways(std::integer_sequence<int, i...>) {
  (register_one<S, i, false>(kWays[i].name), ...);
  register_one<S, 0, true>("packed");
}
template <class... S>
bool register_all(Shapes<S...>) {
  (register_ways<S>(std::make_integer_sequence<int, std::size(kWays)>{}), ...);
  return true;
}

const bool registered = register_all(Candidates{});

}  // namespace
#endif
