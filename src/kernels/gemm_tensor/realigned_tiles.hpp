// What v27 and v27c choose from: shapes of tile, each with one, two, four or eight blocks for a tile.
#pragma once

#include "device/estimate.hpp"
#include "realigned.hpp"
#include "realigned_loads.hpp"

#include <cmath>

namespace gemm_realigned {

/// What a tile takes on an H100, in ns: a K-tile, and the tile's beginning and end. LoadsOf<Op, T> is the
/// policy that fills its ring.
template <template <class, class> class LoadsOf, int NsOfKTile, int NsOfTile>
struct Tile {
  template <class Op, class T>
  using Loads = LoadsOf<Op, T>;
  static constexpr int kNsOfKTile = NsOfKTile, kNsOfTile = NsOfTile;
};

template <class... TileShapes>
class Tiles {
 public:
  static constexpr int kCount = sizeof...(TileShapes);

  /// At most `most`, the fastest first; `dram` is what DRAM delivers, in bytes per ns.
  template <class Op, class T, class C>
  static std::vector<Choice> choices(const gemm_tensor::Args<T, C>& g, std::size_t most,
                                     double dram) {
    std::vector<Choice> all;
    int shape = 0;
    (consider<typename TileShapes::template Loads<Op, T>, TileShapes>(shape++, g, dram, all), ...);
    return ladder::fastest(std::move(all), most);
  }
  template <class Op, class T, class C>
  static void launch(const gemm_tensor::Args<T, C>& g, const Choice& choice, cudaStream_t stream) {
    int shape = 0;
    ((shape++ == choice.shape
          ? gemm_pushed_sums::launch<typename TileShapes::template Loads<Op, T>>(g, choice.parts,
                                                                                 stream)
          : void()),
     ...);
  }

 private:
  template <class Loads, class TileShape, class T, class C>
  static void consider(int shape, const gemm_tensor::Args<T, C>& g, double dram,
                       std::vector<Choice>& all) {
    using S = typename Loads::S;
    const int k_tiles = ladder::ceil_div(g.k, gemm_k_tiles::kDepth);
    const double tiles =
        static_cast<double>(ladder::ceil_div(g.m, S::BM)) * ladder::ceil_div(g.n, S::BN);
    const double m = g.m, n = g.n, k = g.k, bytes = (m * k + k * n) * sizeof(T) + m * n * sizeof(C);
    for (const int parts : gemm_pushed_sums::kSplits) {
      if (parts > k_tiles) break;
      const double resident = gemm_pushed_sums::resident_blocks<Loads, C>(parts, k_tiles);
      const double rounds = std::ceil(tiles * parts / resident);
      const double of_a_block =
          ladder::ceil_div(k_tiles, parts) * TileShape::kNsOfKTile + TileShape::kNsOfTile;
      all.push_back({shape, parts, std::hypot(rounds * of_a_block, bytes / dram)});
    }
  }
};

}  // namespace gemm_realigned
