// Built with LADDER_ALL_TILES: every shape of tile_shapes.hpp, with every number of splits, as a
// version for nt of bf16, for scripts/autotune.py to time. The names tell the rung whose kernel it is,
// the tile, the blocks per SM and the splits: v20a_v15_128x64_2_3.
#if defined(LADDER_ALL_TILES)
#include "tile_shapes.hpp"

#include <list>
#include <string>

namespace {

template <class S, int kSplits>
struct Candidate {
  static constexpr ladder::Version version{"one shape of tile for all problems"};

  static void launch(const gemm_tensor::Args<ladder::bfloat16>& g, cudaStream_t stream) {
    S::template launch<gemm_tensor_nt>(g, kSplits, stream);
  }
  static ladder::Support supports(const gemm_tensor::Problem& p) {
    if (p.m == 0 || p.n == 0 || p.k < kSplits * gemm_k_tiles::kDepth) {
      return ladder::unsupported("not a K-tile for each part of K");
    }
    return gemm_k_tiles::supports<gemm_tensor_nt>(p);
  }
};

/// A file that such a version could be in.
template <class S>
std::string file_name(int splits) {
  auto text = [](int size) { return std::to_string(size); };
  return std::string("v20a_") + S::kRung + "_" + text(S::BM) + "x" + text(S::BN) + "_" +
         text(S::kBlocksPerSm) + "_" + text(splits) + ".sm90a.cu";
}

std::list<std::string> names;  // the registry has pointers to them

template <class S, std::size_t... i>
void register_splits(std::index_sequence<i...>) {
  (void(ladder::Register<Candidate<S, S::kSplits[i]>, gemm_tensor_nt, ladder::bfloat16>(
       ladder::kBackend, names.emplace_back(file_name<S>(S::kSplits[i])).c_str())),
   ...);
}
template <class... S>
bool register_all(Shapes<S...>) {
  (register_splits<S>(std::make_index_sequence<S::kSplits.size()>{}), ...);
  return true;
}

const bool registered = register_all(Candidates{});

}  // namespace
#endif
