// Idea      a dispatcher: the shape of tile and the way to share out the product that an estimate says are
//           the fastest for each problem
// Vs v18    v15's splits and v18's cut tiles in one kernel (tiles.hpp), of several shapes, small ones
//           too; K is split among the blocks of a cluster as well, who add up their sums through
//           shared memory. Up to 8 rows or columns go to v16's kernels (skinny.hpp). Up to 512 rows or
//           columns a sum has at most 768 steps, or is made of runs of 384, as cuBLAS splits K there
//           and has smaller errors for that
// Bound by  instruction issue; with few rows or columns DRAM bandwidth; small problems latency
// Tile      of the table below, in registers and shared memory as in v14; of few rows or columns as
//           in v16. What a GPU has not enough shared memory for is not chosen, nor clusters before
//           compute capability 9.0
//
// The estimate, in nanoseconds. The busiest SM has so many blocks, as many at a time as fit on it. Each
// has so many K-tiles one after the other. They take what their FMAs take, of all blocks at that time,
// or what a block takes that is alone, whose warps wait for shared memory and for each other, whichever
// is more: the fourth root of the sum of fourth powers is about that. Where rows of B do not start at
// multiples of 16 bytes its numbers are copied one by one, which takes longer, or the rows are copied
// first to where they do. Blocks take a time for their beginnings and ends, and for adding up parts of
// K. All of it runs beside DRAM, which reads A and B and writes C, but not quite: the square root of the
// sum of squares. tile_shapes.hpp has the terms.
//
// scripts/autotune.py fits the numbers to times that it measures; those of the H100 are from a forerunner
// of it, whose times are not in results/. They know nothing of a problem but what the estimate sees of
// it, so that a problem nobody has measured is no different from others.
#include "device/gpu_name.hpp"
#include "skinny.hpp"
#include "tile_shapes.hpp"

namespace {

template <int kShapes>
struct Gpu {
  const char* name;
  double ns_of_k_tile[kShapes], ns_alone[kShapes], ns_of_tile[kShapes];  // in the order of Tiles
  Rates rates;
};

// clang-format off
// autotune:begin
using Tiles = Shapes<
    Shape<128, 256, 8, 64, 64, 4, 1, 0>,
    Shape<64, 128, 16, 32, 64, 3, 3, 0>,
    Shape<128, 64, 16, 32, 64, 3, 3, 0>,
    Shape<64, 64, 16, 32, 32, 4, 3, 0>,
    Shape<32, 128, 16, 32, 32, 4, 4, 0>,
    Shape<128, 32, 16, 32, 32, 4, 4, 0>,
    Shape<32, 64, 16, 32, 32, 4, 6, 0>,
    Shape<32, 32, 32, 16, 32, 4, 6, 0>,
    Shape<64, 128, 16, 32, 64, 3, 3, 24>,
    Shape<128, 64, 16, 32, 64, 3, 3, 24>,
    Shape<32, 128, 16, 32, 32, 4, 4, 24>,
    Shape<128, 32, 16, 32, 32, 4, 4, 24>>;
constexpr Gpu<12> kGpus[] = {
    {"NVIDIA H100 80GB HBM3",
     {1263, 645, 664, 379, 375, 437, 195, 264, 675, 724, 376, 428},
     {0, 717, 777, 372, 403, 431, 404, 402, 676, 727, 389, 434},
     {3471, 791, 927, 430, 354, 485, 315, 235, 385, 805, 559, 1805},
     2548, 151.2, 959.7, 119.7, 3065, 8958, 3681},
};
// autotune:end
// clang-format on

/// Which of Tiles, how its blocks share the product out, and whether B is copied to aligned rows first.
struct Choice {
  int shape = 0;
  Plan plan{};
  bool packs = false;
};

class Chooser {
 public:
  explicit Chooser(const gemm::Args<float>& of)
      : g(of), gpu(ladder::entry_of_this_gpu(kGpus)), b_aligned(rows_aligned(of.b, of.n)) {}

  template <class... S>
  Choice among(Shapes<S...>) {
    int shape = 0;
    (consider<S>(shape++), ...);
    return choice;
  }

 private:
  template <class S>
  void consider(int shape) {
    const Pace pace{gpu.ns_of_k_tile[shape], gpu.ns_alone[shape], gpu.ns_of_tile[shape]};
    if (pace.k_tile == 0) return;  // not measured there
    for (const Way& way : kWays) {
      std::optional<Plan> plan = plan_of_way<S>(g, way);
      if (!plan) continue;
      take_if_faster({shape, *plan, false}, estimate<S>(g, *plan, pace, gpu.rates));
      if (b_aligned) continue;
      plan->b_pitch = packed_pitch(g);
      take_if_faster({shape, *plan, true},
                     packing(g, gpu.rates) + estimate<S>(g, *plan, pace, gpu.rates));
    }
  }
  void take_if_faster(const Choice& other, double ns) {
    if (ns >= least) return;
    least = ns;
    choice = other;
  }

  const gemm::Args<float>& g;
  const Gpu<Tiles::kCount>& gpu;
  const bool b_aligned;
  double least = 1e300;
  Choice choice;
};

/// Calls use(S{}) with the shape of that number.
template <class Use, class... S>
void with_shape(Shapes<S...>, int number, Use use) {
  int shape = 0;
  ((shape++ == number ? use(S{}) : void()), ...);
}

template <class... S>
std::size_t most_state(Shapes<S...>, const gemm::Args<float>& g) {
  return std::max({S::kCuts ? cut_state<S>(g) : 0 ...});
}

constexpr int kFewest = 8;  // rows or columns, up to which v16's kernels are taken

struct Autotuned {
  // On the host executor of two SMs: a copy of B, runs and cut tiles; a second launch. On a GPU: K in
  // parts of clusters, with a second launch and without. Few rows and columns of a long K
  static constexpr gemm::Problem test_problems[] = {
      {260, 142, 800}, {33, 66, 4200}, {16, 132, 1031}, {70, 13, 1030}, {40, 13, 1030}};
  static constexpr ladder::Version version{"the best shape of tile, by an estimate"};

  static bool is_few(const gemm::Args<float>& g) { return g.m <= kFewest || g.n <= kFewest; }
  static bool is_skinny(const gemm::Args<float>& g) {
    return is_few(g) && ladder::needs_shared_memory(skinny_shared_bytes(g.m, g.n)).ok;
  }
  static Choice plan(const gemm::Args<float>& g, bool) {
    return is_skinny(g) ? Choice{} : Chooser(g).among(Tiles{});
  }
  static std::size_t workspace(const gemm::Args<float>& g, const Choice& choice) {
    if (is_skinny(g)) return skinny_workspace(g);
    std::size_t bytes = 0;
    with_shape(Tiles{}, choice.shape,
               [&]<class S>(S) { bytes = planned_bytes<S>(g, choice.plan, choice.packs); });
    return bytes;
  }
  static std::size_t state(const gemm::Args<float>& g) {
    return std::max(is_few(g) ? skinny_state(g) : 0, most_state(Tiles{}, g));
  }
  static void launch(const gemm::Args<float>& g, const Choice& choice, void* state,
                     cudaStream_t stream) {
    if (is_skinny(g)) return launch_skinny(g, state, stream);
    with_shape(Tiles{}, choice.shape,
               [&]<class S>(S) { launch_planned<S>(g, choice.plan, choice.packs, state, stream); });
  }
};

const ladder::Register<Autotuned, gemm, float> registration;

}  // namespace
