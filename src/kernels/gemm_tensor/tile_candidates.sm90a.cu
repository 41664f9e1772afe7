// Built with LADDER_ALL_TILES: every shape of tile_shapes.hpp, with every way to share out a product, as
// a version for nt of bf16, for scripts/autotune.py to time. The names tell the rung whose kernel it is;
// of v25 a tile's lines and width, a if it lies across, t if warpgroups take turns, and the blocks of a
// cluster along the lines and beside each other: v20a_v25_128x160a_2x1_rest; of v24 rows and columns, and
// the blocks on an SM: v20a_v24_32x64_2_4; and the way.
#if defined(LADDER_ALL_TILES)
#include "tile_shapes.hpp"

#include <list>

namespace {

template <class S, int kNumber>
struct Candidate {
  static constexpr ladder::Version version{"one shape of tile for all problems"};
  using Args = gemm_tensor::Args<ladder::bfloat16>;

  static Way way(const Args& g) { return S::template ways<gemm_tensor_nt>(g)[kNumber]; }
  static std::size_t workspace(const Args& g) { return S::workspace(way(g)); }
  static std::size_t state(const Args& g) { return S::state(g.m, g.n, g.k); }
  static void launch(const Args& g, void* state, cudaStream_t stream) {
    S::template launch<gemm_tensor_nt>(g, way(g), state, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    const Args g{nullptr, nullptr, nullptr, p.m, p.n, p.k};
    if (p.m == 0 || p.n == 0 || p.k == 0 || way(g).clusters == 0) {
      return ladder::unsupported("no such way to share it out");
    }
    return needs_aligned_rows<gemm_tensor_nt, half>(p);
  }
};

/// A file that such a version could be in.
template <class S>
std::string file_name(int number) {
  return "v20a_" + S::name(number) + ".sm90a.cu";
}

std::list<std::string> names;  // the registry has pointers to them

template <class S, int... i>
void register_ways(std::integer_sequence<int, i...>) {
  (void(ladder::Register<Candidate<S, i>, gemm_tensor_nt, ladder::bfloat16>(
       ladder::kBackend, names.emplace_back(file_name<S>(i)).c_str())),
   ...);
}
template <class... S>
bool register_all(Shapes<S...>) {
  (register_ways<S>(std::make_integer_sequence<int, S::kWays>{}), ...);
  return true;
}

const bool registered = register_all(Candidates{});

}  // namespace
#endif
