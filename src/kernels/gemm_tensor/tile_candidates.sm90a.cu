// Built with LADDER_ALL_TILES: every shape of tile_shapes.hpp, with every way to share out a product, as
// a version for nt of bf16, for scripts/autotune.py to time. The names tell the rung whose kernel it is,
// a block's tile, the blocks of a cluster (v25) or on an SM (v24), and the way: v20a_v25_208x128_2_rest.
#if defined(LADDER_ALL_TILES)
#include "tile_shapes.hpp"

#include <list>
#include <string>

namespace {

template <class S, int kNumber>
struct Candidate {
  static constexpr ladder::Version version{"one shape of tile for all problems"};
  using Args = gemm_tensor::Args<ladder::bfloat16>;

  static typename S::Way way(int m, int n, int k) { return S::way(kNumber, m, n, k); }
  static std::size_t workspace(const Args& g) { return S::workspace(way(g.m, g.n, g.k)); }
  static void launch(const Args& g, cudaStream_t stream) {
    S::template launch<gemm_tensor_nt>(g, way(g.m, g.n, g.k), stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.m == 0 || p.n == 0 || p.k == 0 || way(p.m, p.n, p.k).clusters == 0) {
      return ladder::unsupported("no such way to share it out");
    }
    return gemm_k_tiles::supports<gemm_tensor_nt>(p);
  }
};

/// A file that such a version could be in.
template <class S>
std::string file_name(int number) {
  auto text = [](int size) { return std::to_string(size); };
  return std::string("v20a_") + S::kRung + "_" + text(S::BM) + "x" + text(S::BN) + "_" +
         text(S::kOf) + "_" + S::kNames[number] + ".sm90a.cu";
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
